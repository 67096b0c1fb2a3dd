package query

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// recorder is an engine that records statements, and refuses one.
type recorder struct {
	engine.Statements
	texts   []string
	args    []any
	refuses int // the statement of this number, from 1
}

func (r *recorder) Exec(_ *engine.Tx, text string, args ...any) (int64, error) {
	r.texts, r.args = append(r.texts, text), append(r.args, args...)
	if len(r.texts) == r.refuses {
		return 0, engine.ErrConflict
	}
	return int64(len(args)), nil
}

// Every row goes once, in its order, in as few statements as the sizes give, of which each size
// has one text; and a refusal is the end.
func TestInsert(t *testing.T) {
	q := Builder{Text: `INSERT INTO pair (a, b)`, End: ` ON CONFLICT (a) DO NOTHING`}
	for rows, want := range map[int][]int{
		0: nil, 1: {1}, 3: {1, 1, 1}, 16: {16}, 18: {16, 1, 1}, 127: slices.Concat(slices.Repeat([]int{16}, 7), slices.Repeat([]int{1}, 15)),
		128: {128}, 273: {128, 128, 16, 1},
	} {
		r, all, values := &recorder{}, make([][]any, rows), []any(nil)
		for i := range all {
			all[i] = []any{2 * i, 2*i + 1}
			values = append(values, all[i]...)
		}
		if err := Insert(&engine.Tx{Engine: r}, q, all); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.args, values) {
			t.Errorf("%d rows: not each once, in order: %v", rows, r.args)
		}
		var sizes []int
		for _, text := range r.texts {
			n := strings.Count(text, "(") - 2
			sizes = append(sizes, n)
			if last := fmt.Sprintf("($%d, $%d) ON CONFLICT (a) DO NOTHING", 2*n-1, 2*n); !strings.HasPrefix(text, "INSERT INTO pair (a, b) VALUES ($1, $2)") || !strings.HasSuffix(text, last) {
				t.Errorf("%d rows: %s", rows, text)
			}
		}
		if !slices.Equal(sizes, want) {
			t.Errorf("%d rows: statements of %v rows, want %v", rows, sizes, want)
		}
	}
	r := &recorder{refuses: 2}
	if err := Insert(&engine.Tx{Engine: r}, q, slices.Repeat([][]any{{1, 2}}, 200)); err == nil || len(r.texts) != 2 {
		t.Errorf("%v after %d statements", err, len(r.texts))
	}
}
