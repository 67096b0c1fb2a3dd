package chain

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/grantkeeper/grantkeeper/strictjson"
)

// Kind is what is wrong with an export.
type Kind string

// What can be wrong.
const (
	Altered       Kind = "altered"        // an entry says something else than when it was sealed
	Missing       Kind = "missing"        // an entry of a block is left out
	Inserted      Kind = "inserted"       // an entry that is in no block stands in one
	Twice         Kind = "twice"          // an entry or a block stands there again
	Reordered     Kind = "reordered"      // an entry or a block stands in another place
	BlockAltered  Kind = "block altered"  // a block is not as it was sealed
	BlockMissing  Kind = "block missing"  // blocks are left out
	Foreign       Kind = "foreign"        // of another installation's journal
	AgainstAnchor Kind = "against anchor" // an anchor names another history
	CutOff        Kind = "cut off"        // the end is missing
	Unreadable    Kind = "unreadable"     // a line that no export has
	FileAltered   Kind = "file altered"   // a byte was changed that no entry and no block tells of
)

// A Fault is one thing that is wrong.
type Fault struct {
	Kind  Kind   `json:"kind"`
	Line  int64  `json:"line"`  // where it was noticed, from 1 on
	Block int64  `json:"block"` // 0 is none
	Entry string `json:"entry"` // ID; "" is none
	Why   string `json:"why"`
}

// MaxFaults is how many faults a report names.
const MaxFaults = 1000

// MaxLine is how long a line may be.
const MaxLine = 1 << 20

// A Report is what Verify found. What is no fault and yet worth knowing stands beside
// the faults.
type Report struct {
	Chain       string  `json:"chain"`
	From        int64   `json:"from"` // block of the file, 0 where there is none
	To          int64   `json:"to"`
	Entries     int64   `json:"entries"`     // that are in a block and are there
	Gone        int64   `json:"gone"`        // that retention has removed, as the file says
	GoneBefore  int64   `json:"gone_before"` // removed are at most those from before this, Unix seconds
	Unsealed    int64   `json:"unsealed"`    // that no block proves
	Newest      Anchor  `json:"newest"`
	Agreed      Anchor  `json:"-"` // the newest anchor that was given and agrees; zero: none
	AgreedCount int     `json:"-"`
	Earlier     int     `json:"-"`        // anchors of blocks before the first of the file, which it cannot be held against
	Restored    int64   `json:"restored"` // when a backup was put back last, as an entry says; 0: never
	Faults      []Fault `json:"faults"`
	More        int64   `json:"more"` // faults beyond MaxFaults
}

// restored is the kind of entry that says that a backup was put back.
const restored = "restored"

// Verify reads an export and holds it against anchors. It opens the file a second time
// where it has to say where a misplaced entry belongs. Memory is bounded by a block, the
// anchors and MaxFaults. The error is one of reading; all else is in the report.
func Verify(open func() (io.ReadCloser, error), anchors []Anchor) (*Report, error) {
	v := &verifier{report: &Report{Faults: []Fault{}}, anchors: map[int64][]Anchor{}, sum: sha256.New(), strays: map[string]stray{}}
	for _, a := range anchors {
		if !slices.Contains(v.anchors[a.Number], a) {
			v.anchors[a.Number] = append(v.anchors[a.Number], a)
		}
	}
	if err := v.each(open, v.line); err != nil {
		return nil, err
	}
	v.finish()
	if len(v.strays) > 0 {
		if err := v.each(open, v.locate); err != nil {
			return nil, err
		}
		v.settle()
	}
	slices.SortStableFunc(v.report.Faults, func(a, b Fault) int { return int(a.Line - b.Line) })
	return v.report, nil
}

// A stray is an entry that stands where no block has it.
type stray struct {
	line    int64
	block   int64 // where it stands; 0 behind all blocks
	belongs int64 // the block that has it; 0: none
}

// verifier is where Verify has come to.
type verifier struct {
	report  *Report
	anchors map[int64][]Anchor
	sum     hash.Hash
	number  int64 // of the line
	began   bool
	unknown bool // the file has another form
	lost    bool // the last block could not be read
	tail    bool // behind the blocks
	ended   bool

	block  Block // the last one that was read
	gone   string
	leaves map[string]int // places, by ID
	sums   []Leaf
	seen   []bool
	place  int // of the farthest entry; 0 before the first

	highest  string // ID of all blocks
	lastTail string
	strays   map[string]stray
}

// each reads line by line. A line that is too long is handed on as nil.
func (v *verifier) each(open func() (io.ReadCloser, error), do func([]byte)) error {
	f, err := open()
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	var text []byte
	for v.number = 1; ; v.number++ {
		text = text[:0]
		part, err := in.ReadSlice('\n')
		for ; errors.Is(err, bufio.ErrBufferFull); part, err = in.ReadSlice('\n') {
			if len(text) <= MaxLine {
				text = append(text, part...)
			}
		}
		text = append(text, part...)
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case len(text) > MaxLine:
			do(nil)
		case len(text) > 0:
			do(text)
		}
		if err != nil {
			return nil
		}
	}
}

func (v *verifier) fault(k Kind, entry, why string, args ...any) {
	f := Fault{k, v.number, v.block.Number, entry, fmt.Sprintf(why, args...)}
	if v.tail {
		f.Block = 0
	}
	v.add(f)
}

func (v *verifier) add(f Fault) {
	if len(v.report.Faults) >= MaxFaults {
		v.report.More++
		return
	}
	v.report.Faults = append(v.report.Faults, f)
}

// lineKinds are the members that name what a line is.
var lineKinds = []string{"journal", "block", "unsealed", "end"}

// kindOf tells a line's kind, "" of an entry, and gives what it says.
func kindOf(text []byte) (kind string, says json.RawMessage, err error) {
	members, err := strictjson.Object(text, strictjson.Depth)
	if err != nil {
		return "", nil, err
	}
	for _, k := range lineKinds {
		if m, is := members[k]; is {
			if len(members) > 1 {
				return "", nil, errors.New("it says two things")
			}
			return k, m, nil
		}
	}
	return "", text, nil
}

// line takes one line of the file, with its line end.
func (v *verifier) line(text []byte) {
	kind, says, err := "", json.RawMessage(nil), errors.New("it is longer than a line may be")
	if text != nil {
		kind, says, err = kindOf(bytes.TrimSuffix(text, []byte("\n")))
	}
	if err == nil && (kind == "journal") == v.began && !v.ended {
		v.fault(Unreadable, "", "the export's first line stands once, at the beginning")
	}
	first := !v.began
	v.began = true
	switch {
	case v.unknown:
		return
	case v.ended:
		v.fault(Inserted, "", "something stands behind the closing line")
		return
	case err != nil:
		v.fault(Unreadable, "", "the line cannot be read: %v", err)
	case kind == "journal" && first:
		v.head(says)
	case kind == "journal":
	case kind == "block":
		v.beginBlock(says)
	case kind == "unsealed":
		v.endBlock()
		if v.lost = false; v.tail || string(says) != "{}" {
			v.fault(Unreadable, "", "the line before what is not sealed stands once")
		}
		v.tail = true
	case kind == "end":
		v.endBlock()
		v.end(says)
		return
	default:
		v.entry(says)
	}
	v.sum.Write(text)
}

func (v *verifier) head(says json.RawMessage) {
	var h headLine
	err := whole(says, map[string]any{"form": &h.Form, "chain": &h.Chain})
	switch {
	case err != nil:
		v.fault(Unreadable, "", "the first line: %v", err)
	case h.Form != Form:
		v.unknown = true
		v.fault(Unreadable, "", "the export has form %d; this release reads form %d", h.Form, Form)
	default:
		v.report.Chain = h.Chain
	}
}

// beginBlock reads a block, and holds it against the one before it and against anchors.
func (v *verifier) beginBlock(says json.RawMessage) {
	v.endBlock()
	var b blockLine
	err := whole(says, map[string]any{
		"chain": &b.Chain, "number": &b.Number, "previous": &b.Previous, "entries": &b.Entries, "total": &b.Total,
		"first": &b.First, "last": &b.Last, "at": &b.At, "root": &b.Root,
		"hash": &b.Hash, "leaves": &b.Leaves, "gone_before": &b.GoneBefore,
	})
	if v.lost = err != nil; err != nil {
		v.fault(Unreadable, "", "a block: %v", err)
		return
	}
	if v.report.From == 0 && v.report.Chain == "" {
		v.report.Chain = b.Chain
	}
	before := v.block
	v.block = b.Block
	if len(b.Leaves) == 0 {
		b.Leaves = nil
	}
	v.open(b)
	err = b.holds(b.Leaves)
	switch {
	case v.tail:
		v.tail = false
		v.fault(Reordered, "", "block %d stands behind what is not sealed", b.Number)
	case b.Chain != v.report.Chain:
		v.fault(Foreign, "", "block %d is of another installation's journal", b.Number)
	case err != nil:
		v.fault(BlockAltered, "", "block %d: %v", b.Number, err)
	case b.Leaves == nil && b.GoneBefore <= b.Last:
		v.fault(BlockAltered, "", "block %d has lost the hashes of entries that retention has not reached", b.Number)
	case b.GoneBefore != "" && !IsID(b.GoneBefore):
		v.fault(Unreadable, "", "gone_before is not an entry's ID")
	}
	if v.report.From == 0 {
		v.report.From = b.Number
		v.hold(b.Number-1, func(a Anchor) bool { return a.Sum == b.Previous && a.Total == b.Total-b.Entries })
	} else {
		v.link(before, b.Block)
	}
	v.hold(b.Number, func(a Anchor) bool { return a == b.Anchor() && a.Sum == b.Sum() })
	v.report.To = max(v.report.To, b.Number)
	v.report.Newest = b.Anchor()
}

// link says what is wrong between a block and the one before it in the file.
func (v *verifier) link(before, b Block) {
	switch {
	case b.Number == before.Number:
		v.fault(Twice, "", "block %d stands there again", b.Number)
	case b.Number < before.Number:
		v.fault(Reordered, "", "block %d stands behind block %d", b.Number, before.Number)
	case b.Number == before.Number+2:
		v.fault(BlockMissing, "", "block %d is missing", before.Number+1)
	case b.Number > before.Number+1:
		v.fault(BlockMissing, "", "blocks %d to %d are missing", before.Number+1, b.Number-1)
	case b.Previous != before.Hash && b.Previous != before.Sum():
		v.fault(BlockAltered, "", "block %d does not follow this block %d: the one that it was sealed behind was another", b.Number, before.Number)
	case b.Total != before.Total+b.Entries:
		v.fault(BlockAltered, "", "block %d does not count on from block %d", b.Number, before.Number)
	}
}

// hold holds the anchors of a block against what the file has of it.
func (v *verifier) hold(number int64, agrees func(Anchor) bool) {
	for _, a := range v.anchors[number] {
		switch {
		case a.Chain != v.report.Chain: // finish tells of it
		case !agrees(a):
			v.fault(AgainstAnchor, "", "block %d is not the one that an anchor of %s names: what was sealed until then was changed", number, moment(a.At))
		default:
			v.report.AgreedCount++
			if a.Number > v.report.Agreed.Number {
				v.report.Agreed = a
			}
		}
	}
}

func moment(at int64) string { return time.Unix(at, 0).UTC().Format(time.RFC3339) }

// open makes room for a block's entries.
func (v *verifier) open(b blockLine) {
	v.sums, v.gone = b.Leaves, b.GoneBefore
	v.leaves, v.seen, v.place = make(map[string]int, len(b.Leaves)), make([]bool, len(b.Leaves)), 0
	for i, l := range b.Leaves {
		v.leaves[l.ID] = i
	}
	if v.highest = max(v.highest, b.Last); b.Leaves == nil {
		v.report.Gone += b.Entries
		v.goneUntil(b.GoneBefore)
	}
}

// goneUntil keeps the latest time before which entries are gone; an ID begins with its
// milliseconds.
func (v *verifier) goneUntil(id string) {
	if at, err := idTime(id); err == nil {
		v.report.GoneBefore = max(v.report.GoneBefore, at)
	}
}

// idTime is when an entry was made, in Unix seconds.
func idTime(id string) (at int64, err error) {
	if !IsID(id) {
		return 0, errors.New("not an entry's ID")
	}
	_, err = fmt.Sscanf(id[:12], "%x", &at)
	return at / 1000, err
}

// endBlock names what the last block has and the file has not.
func (v *verifier) endBlock() {
	for i, l := range v.sums {
		switch {
		case v.seen[i]:
		case l.ID < v.gone:
			v.report.Gone++
			v.goneUntil(v.gone)
		default:
			v.fault(Missing, l.ID, "the entry is in block %d and is not there", v.block.Number)
		}
	}
	v.sums, v.leaves = nil, nil
}

// entry takes one entry where it stands.
func (v *verifier) entry(text []byte) {
	e, err := ReadEntry(text)
	if err != nil {
		v.fault(Unreadable, "", "an entry: %v", err)
		return
	}
	if e.Kind == restored {
		v.report.Restored = max(v.report.Restored, e.At)
	}
	i, has := v.leaves[e.ID]
	switch {
	case v.tail:
		v.unsealed(e)
		return
	case v.lost:
		return
	case !has:
		v.astray(e.ID, Inserted, "it is not among the entries that block %d was sealed with", v.block.Number)
		return
	case v.seen[i]:
		v.fault(Twice, e.ID, "the entry stands there again")
		return
	case v.sums[i].Sum != e.Sum():
		v.fault(Altered, e.ID, "it says something else than when it was sealed")
	case i < v.place:
		v.fault(Reordered, e.ID, "it stands behind a later one")
	default:
		v.report.Entries++
	}
	v.seen[i], v.place = true, max(v.place, i)
}

// unsealed takes an entry behind the blocks. One with the ID of a time that is sealed
// may be of a block.
func (v *verifier) unsealed(e Entry) {
	switch {
	case e.ID == v.lastTail:
		v.fault(Twice, e.ID, "the entry stands there again")
		return
	case e.ID < v.lastTail:
		v.fault(Reordered, e.ID, "it stands behind a later one")
	case e.ID <= v.highest:
		v.astray(e.ID, "", "")
	}
	v.lastTail = max(v.lastTail, e.ID)
	v.report.Unsealed++
}

// astray keeps an entry to be looked for in other blocks. A fault that is known already
// is named now.
func (v *verifier) astray(id string, k Kind, why string, args ...any) {
	if k != "" {
		v.fault(k, id, why, args...)
	}
	if len(v.strays) < MaxFaults {
		s := stray{line: v.number}
		if !v.tail {
			s.block = v.block.Number
		}
		v.strays[id] = s
	}
}

// end takes the closing line.
func (v *verifier) end(says json.RawMessage) {
	v.ended = true
	var e endLine
	if err := whole(says, map[string]any{"anchor": &e.Anchor, "lines": &e.Lines, "sha256": &e.SHA256}); err != nil {
		v.fault(Unreadable, "", "the closing line: %v", err)
		return
	}
	if e.Anchor != v.report.Newest.String() {
		v.fault(CutOff, "", "the closing line names another block than the last one of the file")
	}
	if sum := Sum(v.sum.Sum(nil)); len(v.report.Faults) == 0 && (e.Lines != v.number-1 || e.SHA256 != sum) {
		v.fault(FileAltered, "", "the file is not, byte for byte, what was exported")
	}
}

// finish says what only the end shows.
func (v *verifier) finish() {
	v.number = max(v.number-1, 1)
	if v.tail = false; v.unknown {
		return
	}
	if !v.ended {
		v.endBlock()
		v.fault(CutOff, "", "the closing line is missing")
	}
	for _, number := range slices.Sorted(maps.Keys(v.anchors)) {
		for _, a := range v.anchors[number] {
			switch {
			case a.Chain != v.report.Chain && v.report.Chain != "":
				v.fault(Foreign, "", "an anchor of %s is of another installation's journal", moment(a.At))
			case number > v.report.To:
				v.fault(CutOff, "", "an anchor of %s names block %d, and the file ends at block %d", moment(a.At), number, v.report.To)
			case number < v.report.From-1:
				v.report.Earlier++
			}
		}
	}
}

// locate looks in which blocks the strays are.
func (v *verifier) locate(text []byte) {
	kind, says, err := kindOf(bytes.TrimSuffix(text, []byte("\n")))
	if err != nil || kind != "block" {
		return
	}
	members, err := strictjson.Object(says, strictjson.Depth)
	if err != nil {
		return
	}
	var number int64
	var leaves []Leaf
	if json.Unmarshal(members["number"], &number) != nil || json.Unmarshal(members["leaves"], &leaves) != nil {
		return
	}
	for _, l := range leaves {
		if s, is := v.strays[l.ID]; is && s.block != number {
			s.belongs = number
			v.strays[l.ID] = s
		}
	}
}

// settle words the faults of strays by where they belong: one that is missing there was
// moved, any other is there twice.
func (v *verifier) settle() {
	moved := map[string]bool{}
	var kept []Fault
	for _, f := range v.report.Faults {
		if s := v.strays[f.Entry]; s.belongs > 0 && f.Kind == Missing && f.Block == s.belongs {
			moved[f.Entry] = true
			continue
		}
		if s := v.strays[f.Entry]; s.belongs > 0 && f.Kind == Inserted {
			continue
		}
		kept = append(kept, f)
	}
	v.report.Faults = kept
	for id, s := range v.strays {
		switch {
		case s.belongs == 0:
		case moved[id]:
			v.add(Fault{Reordered, s.line, s.block, id, fmt.Sprintf("the entry belongs to block %d", s.belongs)})
		default:
			v.add(Fault{Twice, s.line, s.block, id, fmt.Sprintf("the entry is in block %d", s.belongs)})
		}
	}
}
