package chain_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/grantkeeper/grantkeeper/journal/chain"
)

const ofTests = "0123456789abcdef0123456789abcdef"

// anID is that of an entry of a second.
func anID(n int) string { return fmt.Sprintf("%012x0000%08x", 1764152100000+int64(n)*1000, n) }

func anEntry(n int) chain.Entry {
	return chain.Entry{
		ID: anID(n), At: 1764152100 + int64(n), Kind: "approval_granted", Client: "app", Person: "p-tor", Organization: "nordlys",
		Actor: "person:p-tor", Address: "192.0.2.7", Detail: fmt.Sprintf("selected <roles> %d", n), Reference: "r",
	}
}

// A journal has blocks with their entries, and entries that are not sealed.
type aJournal struct {
	blocks  []chain.Block
	entries [][]chain.Entry
	tail    []chain.Entry
}

// sealed is a journal whose blocks have so many entries, and a tail.
func sealed(tail int, sizes ...int) aJournal {
	var j aJournal
	n, last := 0, chain.Block{}
	for _, size := range sizes {
		var of []chain.Entry
		for range size {
			of = append(of, anEntry(n))
			n++
		}
		last = last.Next(ofTests, of[size-1].At+20, leavesOf(of))
		j.blocks, j.entries = append(j.blocks, last), append(j.entries, of)
	}
	for range tail {
		j.tail = append(j.tail, anEntry(n))
		n++
	}
	return j
}

func leavesOf(entries []chain.Entry) (leaves []chain.Leaf) {
	for _, e := range entries {
		leaves = append(leaves, e.Leaf())
	}
	return leaves
}

// export writes the blocks from one on, counted from 0.
func (j aJournal) export(from int) []byte {
	var out bytes.Buffer
	w := chain.NewWriter(&out, ofTests)
	for i := from; i < len(j.blocks); i++ {
		w.Block(j.blocks[i], leavesOf(j.entries[i]), j.entries[i], "")
	}
	for _, e := range j.tail {
		w.Unsealed(e)
	}
	if err := w.End(); err != nil {
		panic(err) // memory takes it
	}
	return out.Bytes()
}

func (j aJournal) anchors() (all []chain.Anchor) {
	for _, b := range j.blocks {
		all = append(all, b.Anchor())
	}
	return all
}

func verified(t interface{ Fatal(...any) }, file []byte, anchors ...chain.Anchor) *chain.Report {
	r, err := chain.Verify(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file)), nil }, anchors)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// closed gives lines a closing line that fits them, as whoever changes a file would.
func closed(lines []string) []byte {
	last := len(lines) - 1
	text := strings.Join(lines[:last], "\n") + "\n"
	var end struct {
		End map[string]any `json:"end"`
	}
	if json.Unmarshal([]byte(lines[last]), &end) != nil || end.End == nil {
		return []byte(text + lines[last] + "\n")
	}
	sum := sha256.Sum256([]byte(text))
	end.End["sha256"], end.End["lines"] = hex.EncodeToString(sum[:]), last
	line, _ := json.Marshal(end)
	return []byte(text + string(line) + "\n")
}

func linesOf(file []byte) []string {
	return strings.Split(strings.TrimSuffix(string(file), "\n"), "\n")
}

func TestWhole(t *testing.T) {
	t.Parallel()
	j := sealed(2, 3, 1, 1000)
	r := verified(t, j.export(0), append(j.anchors(), j.anchors()...)...)
	if len(r.Faults) > 0 || r.Chain != ofTests || r.From != 1 || r.To != 3 || r.Entries != 1004 || r.Unsealed != 2 ||
		r.Newest != j.anchors()[2] || r.Agreed != r.Newest || r.AgreedCount != 3 || r.Gone != 0 || r.Earlier != 0 {
		t.Errorf("%+v", r)
	}
	r = verified(t, j.export(2), j.anchors()...)
	if len(r.Faults) > 0 || r.From != 3 || r.AgreedCount != 2 || r.Earlier != 1 || r.Agreed != j.anchors()[2] {
		t.Errorf("from the third block on: %+v", r)
	}
	for name, file := range map[string][]byte{"nothing": aJournal{}.export(0), "nothing sealed": sealed(3).export(0)} {
		if r := verified(t, file); len(r.Faults) > 0 || r.From != 0 || r.Newest != (chain.Anchor{}) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// What was changed in a file is named, also where its closing line was made to fit.
func TestFaultsAreNamed(t *testing.T) {
	t.Parallel()
	j := sealed(2, 3, 2, 2) // lines: 0 head, 1 block, 2-4, 5 block, 6-7, 8 block, 9-10, 11 unsealed, 12-13, 14 end
	other := sealed(0, 3, 2, 3)
	other.blocks[0].Chain = strings.Repeat("f", 32)
	others := linesOf(other.export(0))
	for _, tt := range []struct {
		name  string
		do    func(l []string) []string
		want  chain.Kind
		line  int64
		entry string
	}{
		{"an entry says something else", func(l []string) []string { l[3] = strings.Replace(l[3], "p-tor", "p-eve", 1); return l }, chain.Altered, 4, anID(1)},
		{"an entry is of another time", func(l []string) []string { l[3] = strings.Replace(l[3], `"at":1`, `"at":2`, 1); return l }, chain.Altered, 4, anID(1)},
		{"an entry is left out", func(l []string) []string { return slices.Delete(l, 3, 4) }, chain.Missing, 5, anID(1)},
		{"the last entry of a block", func(l []string) []string { return slices.Delete(l, 10, 11) }, chain.Missing, 11, anID(6)},
		{"an entry stands there again", func(l []string) []string { return slices.Insert(l, 4, l[3]) }, chain.Twice, 5, anID(1)},
		{"in another block again", func(l []string) []string { return slices.Insert(l, 6, l[3]) }, chain.Twice, 7, anID(1)},
		{"behind the blocks again", func(l []string) []string { return slices.Insert(l, 12, l[3]) }, chain.Twice, 13, anID(1)},
		{"the last one that is sealed, again", func(l []string) []string { return slices.Insert(l, 12, l[10]) }, chain.Twice, 13, anID(6)},
		{"two change places", func(l []string) []string { l[2], l[3] = l[3], l[2]; return l }, chain.Reordered, 4, anID(0)},
		{"one stands in another block", func(l []string) []string { e := l[3]; return slices.Insert(slices.Delete(l, 3, 4), 6, e) }, chain.Reordered, 7, anID(1)},
		{"one stands behind the blocks", func(l []string) []string { e := l[3]; return slices.Insert(slices.Delete(l, 3, 4), 11, e) }, chain.Reordered, 12, anID(1)},
		{"an entry is inserted", func(l []string) []string {
			e := anEntry(1)
			e.ID = anID(900)
			text, _ := json.Marshal(e)
			return slices.Insert(l, 4, string(text))
		}, chain.Inserted, 5, anID(900)},
		{"an entry in front of all blocks", func(l []string) []string { return slices.Insert(l, 1, l[13]) }, chain.Inserted, 2, anID(8)},
		{"a block is left out", func(l []string) []string { return slices.Delete(l, 5, 8) }, chain.BlockMissing, 6, ""},
		{"a block stands there again", func(l []string) []string { return slices.Insert(l, 8, l[5:8]...) }, chain.Twice, 9, ""},
		{"blocks change places", func(l []string) []string {
			return slices.Concat(l[:1], l[5:8], l[1:5], l[8:])
		}, chain.Reordered, 5, ""},
		{"a block has another time", func(l []string) []string { l[5] = strings.Replace(l[5], `"at":1`, `"at":2`, 1); return l }, chain.BlockAltered, 6, ""},
		{"a block has another hash", func(l []string) []string {
			b := j.blocks[1]
			b.Hash[0]++
			return slices.Concat(l[:5], blockLines(b, j.entries[1]), l[8:])
		}, chain.BlockAltered, 6, ""},
		{"a block with one member less", func(l []string) []string { l[5] = strings.Replace(l[5], `,"gone_before":""`, "", 1); return l }, chain.Unreadable, 6, ""},
		{"a block with one member more", func(l []string) []string { l[5] = strings.Replace(l[5], `"hash":`, `"h":1,"hash":`, 1); return l }, chain.Unreadable, 6, ""},
		{"entry and block fit each other, and not the chain", func(l []string) []string {
			e := j.entries[1][0]
			e.Person = "p-eve"
			of := []chain.Entry{e, j.entries[1][1]}
			b := j.blocks[0].Next(ofTests, j.blocks[1].At, leavesOf(of))
			return slices.Concat(l[:5], blockLines(b, of), l[8:])
		}, chain.BlockAltered, 9, ""},
		{"entry and hash fit each other, and not the block", func(l []string) []string {
			e := j.entries[1][0]
			e.Person = "p-eve"
			return slices.Concat(l[:5], blockLines(j.blocks[1], []chain.Entry{e, j.entries[1][1]}), l[8:])
		}, chain.BlockAltered, 6, ""},
		{"a first block behind another one", func(l []string) []string {
			b := j.blocks[0]
			b.Previous[0]++
			b.Hash = b.Sum()
			return slices.Concat(l[:1], blockLines(b, j.entries[0]), l[5:])
		}, chain.BlockAltered, 2, ""},
		{"a first block that counts wrong", func(l []string) []string {
			b := j.blocks[0]
			b.Total++
			b.Hash = b.Sum()
			return slices.Concat(l[:1], blockLines(b, j.entries[0]), l[5:])
		}, chain.BlockAltered, 2, ""},
		{"a line that says two things", func(l []string) []string { l[11] = `{"unsealed":{},"block":{}}`; return l }, chain.Unreadable, 12, ""},
		{"a line that says something beside", func(l []string) []string { l[11] = `{"unsealed":{},"x":1}`; return l }, chain.Unreadable, 12, ""},
		{"the line before what is not sealed says something", func(l []string) []string { l[11] = `{"unsealed":{"x":1}}`; return l }, chain.Unreadable, 12, ""},
		{"the line before what is not sealed again", func(l []string) []string { return slices.Insert(l, 13, l[11]) }, chain.Unreadable, 14, ""},
		{"a closing line that says less", func(l []string) []string { l[14] = `{"end":{}}`; return l }, chain.Unreadable, 15, ""},
		{"one stands in another block, and one behind it says something else", func(l []string) []string {
			l[10] = strings.Replace(l[10], "p-tor", "p-eve", 1)
			e := l[3]
			return slices.Insert(slices.Delete(l, 3, 4), 6, e)
		}, chain.Reordered, 7, anID(1)},
		{"an entry of no block, and a line that looks like one", func(l []string) []string {
			leaf, _ := anEntry(7).Leaf().MarshalText()
			return slices.Concat(l[:6], l[12:13], l[6:11], []string{`{"number":3,"leaves":["` + string(leaf) + `"]}`}, l[11:12], l[13:])
		}, chain.Inserted, 7, anID(7)},
		{"a block counts wrong", func(l []string) []string {
			b := j.blocks[1]
			b.Total++
			b.Hash = b.Sum()
			return slices.Concat(l[:5], blockLines(b, j.entries[1]), l[8:])
		}, chain.BlockAltered, 6, ""},
		{"the hashes of entries are dropped", func(l []string) []string {
			at, end := strings.Index(l[5], `"leaves":[`), strings.Index(l[5], `],"gone`)
			l[5] = l[5][:at] + `"leaves":[` + l[5][end:]
			return slices.Delete(l, 6, 8)
		}, chain.BlockAltered, 6, ""},
		{"of another installation", func(l []string) []string { return slices.Concat(l[:1], others[1:5], l[5:]) }, chain.Foreign, 2, ""},
		{"the last block is cut off", func(l []string) []string { return slices.Delete(l, 8, 11) }, chain.CutOff, 12, ""},
		{"the closing line is cut off", func(l []string) []string { return l[:len(l)-1] }, chain.CutOff, 14, ""},
		{"half of the file is cut off", func(l []string) []string { return l[:7] }, chain.CutOff, 7, ""},
		{"a line of something else", func(l []string) []string { return slices.Insert(l, 4, "hello") }, chain.Unreadable, 5, ""},
		{"a line without a member", func(l []string) []string { l[12] = strings.Replace(l[12], `,"reason":""`, "", 1); return l }, chain.Unreadable, 13, ""},
		{"a member twice", func(l []string) []string {
			l[12] = strings.Replace(l[12], `"reason":""`, `"reason":"","reason":""`, 1)
			return l
		}, chain.Unreadable, 13, ""},
		{"a line without end", func(l []string) []string { l[12] = strings.Repeat(" ", 1<<20) + l[12]; return l }, chain.Unreadable, 13, ""},
		{"two of one line", func(l []string) []string { return slices.Insert(l, 1, l[0]) }, chain.Unreadable, 2, ""},
		{"another form", func(l []string) []string { l[0] = strings.Replace(l[0], ":1,", ":2,", 1); return l }, chain.Unreadable, 1, ""},
		{"without the first line", func(l []string) []string { return l[1:] }, chain.Unreadable, 1, ""},
		{"a line behind the end", func(l []string) []string { return append(l, l[13]) }, chain.Inserted, 16, ""},
		{"unsealed ones change places", func(l []string) []string { l[12], l[13] = l[13], l[12]; return l }, chain.Reordered, 14, anID(7)},
		{"an unsealed one again", func(l []string) []string { return slices.Insert(l, 13, l[12]) }, chain.Twice, 14, anID(7)},
		{"a block behind what is not sealed", func(l []string) []string { return slices.Concat(l[:8], l[11:14], l[8:11], l[14:]) }, chain.Reordered, 12, ""},
	} {
		r := verified(t, closed(tt.do(linesOf(j.export(0)))))
		if !slices.ContainsFunc(r.Faults, func(f chain.Fault) bool { return f.Kind == tt.want && f.Line == tt.line && f.Entry == tt.entry }) {
			t.Errorf("%s: %+v", tt.name, r.Faults)
		}
		if len(r.Faults) > 3 {
			t.Errorf("%s: it is said too often: %+v", tt.name, r.Faults)
		}
		if !slices.IsSortedFunc(r.Faults, func(a, b chain.Fault) int { return cmp.Compare(a.Line, b.Line) }) {
			t.Errorf("%s: not in the order of lines: %+v", tt.name, r.Faults)
		}
	}
}

// One change is one fault, with the block that it stands in and words of its own.
func TestOneFault(t *testing.T) {
	t.Parallel()
	j := sealed(2, 1, 2, 1, 1, 1) // lines: 0 head, 1 block, 2, 3 block, 4-5, 6 block, 7, 8 block, 9, 10 block, 11, 12 unsealed, 13-14, 15 end
	for _, tt := range []struct {
		name string
		do   func(l []string) []string
		want chain.Fault // Why begins so
	}{
		{"an entry says something else", func(l []string) []string { l[5] = strings.Replace(l[5], "p-tor", "p-eve", 1); return l },
			chain.Fault{chain.Altered, 6, 2, anID(2), "it says something else"}},
		{"one stands in another block", func(l []string) []string { e := l[4]; return slices.Insert(slices.Delete(l, 4, 5), 6, e) },
			chain.Fault{chain.Reordered, 7, 3, anID(1), "the entry belongs to block 2"}},
		{"one stands behind the blocks", func(l []string) []string { e := l[4]; return slices.Insert(slices.Delete(l, 4, 5), 12, e) },
			chain.Fault{chain.Reordered, 13, 0, anID(1), "the entry belongs to block 2"}},
		{"one stands there again", func(l []string) []string { return slices.Insert(l, 7, l[4]) },
			chain.Fault{chain.Twice, 8, 3, anID(1), "the entry is in block 2"}},
		{"an unsealed one again", func(l []string) []string { return slices.Insert(l, 14, l[13]) },
			chain.Fault{chain.Twice, 15, 0, anID(6), "the entry stands there again"}},
		{"a block is left out", func(l []string) []string { return slices.Delete(l, 3, 6) },
			chain.Fault{chain.BlockMissing, 4, 3, "", "block 2 is missing"}},
		{"two blocks are left out", func(l []string) []string { return slices.Delete(l, 3, 8) },
			chain.Fault{chain.BlockMissing, 4, 4, "", "blocks 2 to 3 are missing"}},
		{"three blocks are left out", func(l []string) []string { return slices.Delete(l, 3, 10) },
			chain.Fault{chain.BlockMissing, 4, 5, "", "blocks 2 to 4 are missing"}},
		{"a first line of something else", func(l []string) []string { l[0] = "hello"; return l },
			chain.Fault{chain.Unreadable, 1, 0, "", "the line cannot be read"}},
		{"a first line that says two things", func(l []string) []string { l[0] = strings.TrimSuffix(l[0], "}") + `,"x":1}`; return l },
			chain.Fault{chain.Unreadable, 1, 0, "", "the line cannot be read: it says two things"}},
		{"the first line again", func(l []string) []string { return slices.Insert(l, 1, l[0]) },
			chain.Fault{chain.Unreadable, 2, 0, "", "the export's first line stands once"}},
		{"another form, of which nothing else is read", func(l []string) []string {
			l[0], l[4] = strings.Replace(l[0], `"form":1`, `"form":2`, 1), strings.Replace(l[4], "p-tor", "p-eve", 1)
			return l
		}, chain.Fault{chain.Unreadable, 1, 0, "", "the export has form 2; this release reads form 1"}},
	} {
		r := verified(t, closed(tt.do(linesOf(j.export(0)))))
		if len(r.Faults) != 1 {
			t.Errorf("%s: %+v", tt.name, r.Faults)
			continue
		}
		got := r.Faults[0]
		if strings.HasPrefix(got.Why, tt.want.Why) {
			got.Why = tt.want.Why
		}
		if got != tt.want {
			t.Errorf("%s: %+v", tt.name, r.Faults)
		}
	}
}

// A block that fits its own hash is held against what a block can be.
func TestImpossibleBlocks(t *testing.T) {
	t.Parallel()
	j := sealed(0, 4)
	for name, change := range map[string]func(b *chain.Block){
		"first is no ID":     func(b *chain.Block) { b.First = b.First[1:] },
		"last is no ID":      func(b *chain.Block) { b.Last = b.Last[:23] },
		"last before first":  func(b *chain.Block) { b.First, b.Last = b.Last, b.First },
		"no entries":         func(b *chain.Block) { b.Entries, b.Total = 0, 0 },
		"too many entries":   func(b *chain.Block) { b.Entries, b.Total = 1001, 1001 },
		"fewer than it has":  func(b *chain.Block) { b.Total-- },
		"numbered 0":         func(b *chain.Block) { b.Number = 0 },
		"a chain of 31":      func(b *chain.Block) { b.Chain = b.Chain[1:] },
		"a chain in capital": func(b *chain.Block) { b.Chain = strings.ToUpper(b.Chain) },
	} {
		b := j.blocks[0]
		change(&b)
		b.Hash = b.Sum()
		var out bytes.Buffer
		w := chain.NewWriter(&out, b.Chain)
		w.Block(b, nil, nil, anID(9))
		w.End()
		if r := verified(t, out.Bytes()); len(r.Faults) != 1 || r.Faults[0].Kind != chain.BlockAltered {
			t.Errorf("%s: %+v", name, r.Faults)
		}
	}
	for name, change := range map[string]func(b *chain.Block){
		"first is another entry": func(b *chain.Block) { b.First = anID(1) }, "last is another entry": func(b *chain.Block) { b.Last = anID(5) },
	} {
		b := j.blocks[0]
		change(&b)
		b.Hash = b.Sum()
		var out bytes.Buffer
		w := chain.NewWriter(&out, ofTests)
		w.Block(b, leavesOf(j.entries[0]), j.entries[0], "")
		w.End()
		if r := verified(t, out.Bytes()); len(r.Faults) != 1 || r.Faults[0].Kind != chain.BlockAltered {
			t.Errorf("%s: %+v", name, r.Faults)
		}
	}
	for name, order := range map[string][]int{"not in order": {0, 2, 1, 3}, "one twice": {0, 1, 1, 3}} {
		var of []chain.Entry
		for _, i := range order {
			of = append(of, j.entries[0][i])
		}
		b, leaves := j.blocks[0], chain.Pack(leavesOf(of))
		b.Root = sha256.Sum256(fmt.Appendf(nil, "28:grantkeeper journal leaves 1%d:%s", len(leaves), leaves))
		b.Hash = b.Sum()
		var out bytes.Buffer
		w := chain.NewWriter(&out, ofTests)
		w.Block(b, leavesOf(of), of, "")
		w.End()
		if r := verified(t, out.Bytes()); len(r.Faults) == 0 || r.Faults[0].Kind != chain.BlockAltered || !strings.Contains(r.Faults[0].Why, "not in the order") {
			t.Errorf("%s: %+v", name, r.Faults)
		}
	}
	b := j.blocks[0] // where an entry is missing in it, and another one stands there
	b.Number = 0
	b.Hash = b.Sum()
	var out bytes.Buffer
	w := chain.NewWriter(&out, ofTests)
	w.Block(b, leavesOf(j.entries[0]), append(slices.Clone(j.entries[0][1:]), anEntry(9)), "")
	w.End()
	if r := verified(t, out.Bytes()); !slices.ContainsFunc(r.Faults, func(f chain.Fault) bool { return f.Kind == chain.Missing && f.Entry == anID(0) }) {
		t.Errorf("what is missing in block 0: %+v", r.Faults)
	}
}

// What cannot be read is an error and no report, the second time as well.
func TestReadingFails(t *testing.T) {
	t.Parallel()
	j := sealed(0, 2, 2)
	lines := linesOf(j.export(0)) // an entry of the first block is moved into the second
	file := closed(slices.Concat(lines[:2], lines[3:5], lines[2:3], lines[5:]))
	broken := errors.New("broken")
	whole := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file)), nil }
	closed := func() (io.ReadCloser, error) { return nil, broken }
	half := func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(bytes.NewReader(file[:len(file)/2]), iotest.ErrReader(broken))), nil
	}
	opened := 0
	if _, err := chain.Verify(func() (io.ReadCloser, error) {
		opened++
		return io.NopCloser(bytes.NewReader(j.export(0))), nil
	}, nil); err != nil || opened != 1 {
		t.Errorf("where nothing is misplaced: read %d times, %v", opened, err)
	}
	type opening = func() (io.ReadCloser, error)
	for name, all := range map[string][]opening{"cannot be opened": {closed}, "breaks off": {half}, "cannot be opened again": {whole, closed}, "breaks off again": {whole, half}} {
		r, err := chain.Verify(func() (io.ReadCloser, error) {
			open := all[0]
			all = all[1:]
			return open()
		}, nil)
		if r != nil || err != broken || len(all) > 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// once is a writer that fails the first time.
type once struct{ calls int }

func (o *once) Write(p []byte) (int, error) {
	if o.calls++; o.calls == 1 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

// Nothing is written behind what could not be.
func TestFirstErrorStays(t *testing.T) {
	t.Parallel()
	j, to := sealed(1, 1), &once{}
	w := chain.NewWriter(to, ofTests)
	for what, err := range map[string]error{
		"block": w.Block(j.blocks[0], leavesOf(j.entries[0]), j.entries[0], ""), "unsealed": w.Unsealed(j.tail[0]), "end": w.End(),
	} {
		if err != io.ErrShortWrite {
			t.Errorf("%s: %v", what, err)
		}
	}
	if to.calls != 1 {
		t.Errorf("written %d times", to.calls)
	}
}

func blockLines(b chain.Block, entries []chain.Entry) []string {
	var out bytes.Buffer
	chain.NewWriter(&out, ofTests).Block(b, leavesOf(entries), entries, "")
	return linesOf(out.Bytes())[1:]
}

// Decision J6. Whoever writes all of the journal anew, hashes included, is found by an anchor from
// before, and by nothing else.
func TestAnchors(t *testing.T) {
	t.Parallel()
	j, anew := sealed(0, 3, 2, 2), sealed(0, 3, 3, 2)
	for _, a := range append(j.anchors(), chain.Anchor{}) {
		got := j.anchors()[0]
		text, err := a.MarshalText()
		if err != nil || got.UnmarshalText(text) != nil || got != a {
			t.Errorf("%+v as text: %s, %+v, %v", a, text, got, err)
		}
	}
	r := verified(t, anew.export(0))
	if len(r.Faults) > 0 {
		t.Errorf("a file agrees with itself: %+v", r.Faults)
	}
	r = verified(t, anew.export(0), j.anchors()[0])
	if len(r.Faults) > 0 || r.AgreedCount != 1 {
		t.Errorf("an anchor from before what was changed: %+v", r)
	}
	for i, a := range j.anchors()[1:] {
		r = verified(t, anew.export(0), j.anchors()[0], a)
		if len(r.Faults) != 1 || r.Faults[0].Kind != chain.AgainstAnchor || r.Faults[0].Block != a.Number || r.AgreedCount != 1 {
			t.Errorf("anchor %d: %+v", i+2, r)
		}
	}
	if r = verified(t, anew.export(2), j.anchors()[1]); len(r.Faults) != 1 || r.Faults[0].Kind != chain.AgainstAnchor {
		t.Errorf("by what the first block names as the one before: %+v", r)
	}
	other := j.anchors()[1]
	other.Sum[0]++
	if r = verified(t, j.export(2), other); len(r.Faults) != 1 || r.Faults[0].Kind != chain.AgainstAnchor || r.AgreedCount != 0 {
		t.Errorf("by its hash alone: %+v", r)
	}
	if r = verified(t, sealed(0, 3, 2).export(0), j.anchors()...); len(r.Faults) != 1 || r.Faults[0].Kind != chain.CutOff || r.AgreedCount != 2 {
		t.Errorf("cut off whole: %+v", r)
	}
	foreign := j.anchors()[0]
	foreign.Chain = strings.Repeat("e", 32)
	if r = verified(t, j.export(0), foreign); len(r.Faults) != 1 || r.Faults[0].Kind != chain.Foreign || r.AgreedCount != 0 {
		t.Errorf("of another installation: %+v", r)
	}
	var empty bytes.Buffer
	chain.NewWriter(&empty, "").End()
	for _, file := range [][]byte{aJournal{}.export(0), empty.Bytes()} {
		if r = verified(t, file, j.anchors()[0]); len(r.Faults) != 1 || r.Faults[0].Kind != chain.CutOff {
			t.Errorf("all is gone: %+v", r)
		}
	}
	lie := j.anchors()[1]
	lie.Total++
	if r = verified(t, j.export(0), lie); len(r.Faults) != 1 || r.Faults[0].Kind != chain.AgainstAnchor {
		t.Errorf("an anchor that counts wrong: %+v", r)
	}
}

// What retention has removed is told and no fault, as far as the file says that it goes.
func TestRetention(t *testing.T) {
	t.Parallel()
	j := sealed(0, 3, 3, 2)
	write := func(goneFirst, goneSecond string, kept int) []byte {
		var out bytes.Buffer
		w := chain.NewWriter(&out, ofTests)
		w.Block(j.blocks[0], nil, nil, goneFirst)
		w.Block(j.blocks[1], leavesOf(j.entries[1]), j.entries[1][kept:], goneSecond)
		w.Block(j.blocks[2], leavesOf(j.entries[2]), j.entries[2], "")
		w.End()
		return out.Bytes()
	}
	r := verified(t, write(anID(4), anID(4), 1), j.anchors()...)
	if len(r.Faults) > 0 || r.Gone != 4 || r.Entries != 4 || r.AgreedCount != 3 || r.GoneBefore != anEntry(4).At {
		t.Errorf("%+v", r)
	}
	if r = verified(t, write(anID(3), "", 0)); len(r.Faults) > 0 || r.Gone != 3 || r.GoneBefore != anEntry(3).At {
		t.Errorf("a block: %+v", r)
	}
	var part bytes.Buffer
	w := chain.NewWriter(&part, ofTests)
	w.Block(j.blocks[0], leavesOf(j.entries[0]), j.entries[0][1:], anID(1))
	w.End()
	if r = verified(t, part.Bytes()); len(r.Faults) > 0 || r.Gone != 1 || r.GoneBefore != anEntry(1).At {
		t.Errorf("a part of a block: %+v", r)
	}
	r = verified(t, write(anID(4), anID(4), 2), j.anchors()...)
	if len(r.Faults) != 1 || r.Faults[0].Kind != chain.Missing || r.Faults[0].Entry != anID(4) {
		t.Errorf("one too many: %+v", r)
	}
	if r = verified(t, write(anID(2), "", 0)); len(r.Faults) != 1 || r.Faults[0].Kind != chain.BlockAltered {
		t.Errorf("a block that retention has not reached: %+v", r)
	}
	if r = verified(t, write(anID(3), "x", 0)); len(r.Faults) != 1 || r.Faults[0].Kind != chain.Unreadable {
		t.Errorf("not an ID: %+v", r)
	}
}

// A backup that was put back is told, for anchors of what came after it do not fit.
func TestRestoredIsTold(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	e := anEntry(1)
	e.Kind = "restored"
	w := chain.NewWriter(&out, "")
	w.Unsealed(e)
	w.End()
	if r := verified(t, out.Bytes()); r.Restored != e.At || len(r.Faults) > 0 {
		t.Errorf("%+v", r)
	}
}

// A byte that is changed anywhere is found. Where whoever changed it makes the closing
// line fit, it is found in all that is sealed, unless it says the same as before.
func TestEachByteCounts(t *testing.T) {
	t.Parallel()
	j := sealed(1, 2, 1)
	file := j.export(0)
	sealedUntil := bytes.Index(file, []byte(`{"unsealed"`))
	for at := range file {
		for _, mask := range []byte{1, 4, 0x20, 0x80} {
			changed := bytes.Clone(file)
			changed[at] ^= mask
			if r := verified(t, changed); len(r.Faults) == 0 {
				t.Errorf("byte %d as %q: nothing found", at, changed[at])
			}
			fitted := closed(linesOf(changed))
			if at < sealedUntil && len(verified(t, fitted).Faults) == 0 && meaning(t, fitted) != meaning(t, file) {
				t.Errorf("byte %d as %q, closing line made to fit: nothing found", at, changed[at])
			}
		}
	}
}

// meaning is what the entries of a file say.
func meaning(t *testing.T, file []byte) (all string) {
	for _, l := range linesOf(file) {
		if e, err := chain.ReadEntry([]byte(l)); err == nil {
			all += fmt.Sprintf("%+v\n", e)
		}
	}
	return all
}

// Whatever is done to one sealed entry of a journal, its name is in a fault; what is done
// by nobody is in none.
func TestOneChange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		j := sealed(rapid.IntRange(0, 3).Draw(t, "tail"), rapid.SliceOfN(rapid.IntRange(1, 6), 1, 5).Draw(t, "sizes")...)
		if r := verified(t, j.export(0), j.anchors()...); len(r.Faults) > 0 {
			t.Fatalf("nothing was done: %+v", r.Faults)
		}
		b := rapid.IntRange(0, len(j.entries)-1).Draw(t, "block")
		i := rapid.IntRange(0, len(j.entries[b])-1).Draw(t, "entry")
		id := j.entries[b][i].ID
		lines := linesOf(j.export(0))
		at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, `{"id":"`+id) })
		what := rapid.SampledFrom([]string{"alter", "remove", "again", "move"}).Draw(t, "what")
		switch what {
		case "alter":
			lines[at] = strings.Replace(lines[at], "nordlys", "nordlyz", 1)
		case "remove":
			lines = slices.Delete(lines, at, at+1)
		case "again":
			lines = slices.Insert(lines, rapid.IntRange(1, len(lines)-1).Draw(t, "to"), lines[at])
		case "move":
			l := lines[at]
			lines = slices.Delete(lines, at, at+1)
			to := rapid.IntRange(1, len(lines)-1).Draw(t, "to")
			if to == at {
				to = len(lines) - 1
				if !strings.HasPrefix(lines[to-1], `{"id"`) || at == to {
					return
				}
			}
			lines = slices.Insert(lines, to, l)
		}
		r := verified(t, closed(lines), j.anchors()...)
		if len(r.Faults) == 0 {
			t.Fatal("nothing found")
		}
		named := false
		for _, f := range r.Faults {
			named = named || f.Entry == id
			if !slices.ContainsFunc(j.entries[b], func(e chain.Entry) bool { return e.ID == f.Entry }) { // of those that changed places, each may be named
				t.Fatalf("%+v is about another than %s", f, id)
			}
		}
		if !named && what != "move" {
			t.Fatalf("%s is not named: %+v", id, r.Faults)
		}
	})
}

// Two entries that differ in any way have two hashes.
func TestSumsDiffer(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{"", "a", "ab", "b", "1:a", "2:ab", "\x00"})
	draw := func(t *rapid.T, name string) chain.Entry {
		w := func(of string) string { return word.Draw(t, name+of) }
		return chain.Entry{
			w("id"), rapid.Int64Range(0, 1).Draw(t, name+"at"), w("kind"), w("client"), w("person"), w("organization"), w("approval"),
			w("actor"), w("address"), w("reason"), w("detail"), w("reference"),
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		if a, b := draw(t, "a "), draw(t, "b "); (a == b) != (a.Sum() == b.Sum()) {
			t.Errorf("%+v and %+v", a, b)
		}
	})
	base := anEntry(1)
	for i, change := range []func(*chain.Entry){
		func(e *chain.Entry) { e.ID = anID(2) }, func(e *chain.Entry) { e.At++ }, func(e *chain.Entry) { e.Kind += "x" },
		func(e *chain.Entry) { e.Client += "x" }, func(e *chain.Entry) { e.Person += "x" }, func(e *chain.Entry) { e.Organization += "x" },
		func(e *chain.Entry) { e.Approval += "x" }, func(e *chain.Entry) { e.Actor += "x" }, func(e *chain.Entry) { e.Address += "x" },
		func(e *chain.Entry) { e.Reason += "x" }, func(e *chain.Entry) { e.Detail += "x" }, func(e *chain.Entry) { e.Reference += "x" },
		func(e *chain.Entry) { e.Client, e.Person = e.Client+e.Person, "" },
	} {
		if e := base; e.Sum() == func() chain.Sum { change(&e); return e.Sum() }() {
			t.Errorf("change %d is not seen", i)
		}
	}
}

// The canonical form is fixed: a change of it would disown every anchor.
func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	j := sealed(0, 3, 2)
	if got, want := j.anchors()[1].String(), "grantkeeper-journal-1:"+ofTests+":2:5:20251126T101524Z:19cfbffe16472b12a0edf09df32ac755f19411ac1683ce9fdf5d85cefbeee208"; got != want {
		t.Errorf("got %s", got)
	}
	e := anEntry(1)
	e.Detail = "broken \xff\xfe"
	line, _ := json.Marshal(e)
	if got, err := chain.ReadEntry(line); err != nil || got.Sum() != e.Sum() {
		t.Errorf("what JSON repairs has another hash: %v", err)
	}
	nul, held := e, e
	nul.Detail, held.Detail = "a\x00\x00b\xff", "a\uFFFD\uFFFDb\uFFFD"
	if nul.Sum() != held.Sum() {
		t.Error("what PostgreSQL holds of an entry has another hash")
	}
}

func TestFindAnchors(t *testing.T) {
	t.Parallel()
	a, b := sealed(0, 1, 2).anchors()[0], sealed(0, 1, 2).anchors()[1]
	for text, want := range map[string][]chain.Anchor{
		"":         nil,
		a.String(): {a},
		`time=2026-11-26T10:15:00Z level=INFO msg="the journal's anchor" anchor=` + a.String() + " entries=3": {a},
		`{"anchor":"` + a.String() + `","other":"` + b.String() + `"}`:                                        {a, b},
	} {
		if got, err := chain.FindAnchors(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{a.String()[:len(a.String())-1], a.String() + "0", strings.Replace(a.String(), ":1:", ":01:", 1)} {
		if got, err := chain.FindAnchors("x " + text); err == nil || len(got) > 0 {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// An anchor is read as it is written, and nothing else is one.
func TestParseAnchor(t *testing.T) {
	t.Parallel()
	a := sealed(0, 12).anchors()[0]
	text := a.String()
	if got, err := chain.ParseAnchor(text); err != nil || got != a {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{
		"", "x", text[1:], text + ":", strings.Replace(text, ofTests, ofTests[1:], 1), strings.Replace(text, ofTests, ofTests[1:]+"g", 1),
		strings.Replace(text, ":1:", ":0:", 1), strings.Replace(text, ":12:", ":+12:", 1), strings.Replace(text, "Z:", ":", 1),
	} {
		got := a
		if one, err := chain.ParseAnchor(bad); err == nil || one != (chain.Anchor{}) {
			t.Errorf("%q: %+v, %v", bad, one, err)
		}
		if err := got.UnmarshalText([]byte(bad)); (err == nil) != (bad == "") || got != (chain.Anchor{}) {
			t.Errorf("%q as text: %+v, %v", bad, got, err)
		}
	}
}

// Leaves are unpacked as they were packed.
func TestPack(t *testing.T) {
	t.Parallel()
	leaves := leavesOf(sealed(0, 7).entries[0])
	got, err := chain.Unpack(chain.Pack(leaves))
	if err != nil || !slices.Equal(got, leaves) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := chain.Unpack(chain.Pack(leaves)[1:]); err == nil {
		t.Error("a part is enough")
	}
}

// As many faults as there may be are named, and the rest counted.
func TestFaultsAreBounded(t *testing.T) {
	t.Parallel()
	j := sealed(0, 1000, 1000)
	var lines []string
	for _, l := range linesOf(j.export(0)) {
		if !strings.HasPrefix(l, `{"id"`) {
			lines = append(lines, l)
		}
	}
	if r := verified(t, closed(lines)); len(r.Faults) != chain.MaxFaults || r.More != 1000 {
		t.Errorf("%d faults, %d more", len(r.Faults), r.More)
	}
}

func FuzzVerify(f *testing.F) {
	j := sealed(2, 3, 2)
	f.Add(j.export(0))
	f.Add(j.export(1))
	f.Add([]byte("{}\n\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		r := verified(t, file, j.anchors()...)
		if r.AgreedCount == 2 && len(r.Faults) == 0 && !strings.Contains(meaning(t, file), meaning(t, sealed(0, 3, 2).export(1))) {
			t.Error("it agrees with anchors and says something else")
		}
	})
}

func FuzzAnchor(f *testing.F) {
	f.Add(sealed(0, 1).anchors()[0].String())
	f.Fuzz(func(t *testing.T, text string) {
		if a, err := chain.ParseAnchor(text); err == nil && a.String() != text {
			t.Errorf("%q became %q", text, a)
		}
		_, _ = chain.FindAnchors(text) // it must not panic
	})
}

func FuzzEntry(f *testing.F) {
	line, _ := json.Marshal(anEntry(1))
	f.Add(line)
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := chain.ReadEntry(line)
		if err != nil {
			return
		}
		again, _ := json.Marshal(e)
		if got, err := chain.ReadEntry(again); err != nil || got != e || got.Sum() != e.Sum() {
			t.Errorf("%s became %s: %v", line, again, err)
		}
	})
}
