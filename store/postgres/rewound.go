package postgres

import "github.com/grantkeeper/grantkeeper/store/engine"

// rewound says that the database went back in time: it was set back to an earlier copy, or has
// lost what it had acknowledged. What is remembered of approvals is of later.
func (p *Engine) rewound(from, to int64) {
	p.Log.Error("the database went back in time: what was revoked since its copy may live again, until all approvals are ended",
		"run", "grantkeeper backup restore", "version", from, "found", to)
	p.Rows.clear()
	p.Later((*engine.Tx).NoteRewound, nil)
}
