package postgres

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
)

// of gives the columns of a row in a format.
func of(format int16, values ...string) *columns {
	c := &columns{}
	var row [][]byte
	for i, v := range values {
		c.fields, row = append(c.fields, pgconn.FieldDescription{Name: fmt.Sprint("c", i), Format: format}), append(row, []byte(v))
	}
	c.next(row)
	return c
}

// Columns are read alike in both formats, and of what cannot be read the first is told.
func TestColumns(t *testing.T) {
	minus := string(binary.BigEndian.AppendUint64(nil, 1<<64-7))
	id := "0123456789abcdef"
	for _, tt := range []struct {
		name   string
		format int16
		values []string
		read   func(c *columns) any
		want   string
		wrong  string // the column
	}{
		{"a number", pgx.BinaryFormatCode, []string{minus}, func(c *columns) any { return c.number() }, "-7", ""},
		{"a number as text", pgx.TextFormatCode, []string{"-7"}, func(c *columns) any { return c.number() }, "-7", ""},
		{"a short number", pgx.BinaryFormatCode, []string{minus[1:]}, func(c *columns) any { return c.number() }, "0", "c0"},
		{"a word as a number", pgx.TextFormatCode, []string{"x"}, func(c *columns) any { return c.number() }, "0", "c0"},
		{"octets", pgx.BinaryFormatCode, []string{"ab"}, func(c *columns) any { return string(c.octets()) }, "ab", ""},
		{"octets as text", pgx.TextFormatCode, []string{`\x6162`}, func(c *columns) any { return string(c.octets()) }, "ab", ""},
		{"half an octet", pgx.TextFormatCode, []string{`\x6`}, func(c *columns) any { return string(c.octets()) }, "", "c0"},
		{"an ID", pgx.BinaryFormatCode, []string{id}, func(c *columns) any { return c.id() == approval.ID([]byte(id)) }, "true", ""},
		{"a long ID", pgx.BinaryFormatCode, []string{id + "g"}, func(c *columns) any { return c.id() == approval.ID{} }, "true", "c0"},
		{"a short ID", pgx.BinaryFormatCode, []string{id[1:]}, func(c *columns) any { return c.id() == approval.ID{} }, "true", "c0"},
		{"texts", pgx.TextFormatCode, []string{"a", "", "bc", "7"}, func(c *columns) any {
			var x, y, z string
			c.texts(&x, &y, &z)
			return fmt.Sprintf("%s|%s|%s|%d", x, y, z, c.number())
		}, "a||bc|7", ""},
		{"two that are wrong", pgx.TextFormatCode, []string{"1", "x", "y"}, func(c *columns) any { return c.number() + c.number() + c.number() }, "1", "c1"},
	} {
		c := of(tt.format, tt.values...)
		if got := fmt.Sprint(tt.read(c)); got != tt.want || (c.err != nil) != (tt.wrong != "") || c.err != nil && !strings.Contains(c.err.Error(), "column "+tt.wrong+":") {
			t.Errorf("%s: %s, %v", tt.name, got, c.err)
		}
	}
	for kind, good := range map[string]bool{"everything": true, "all": false} {
		var c columns
		var a approval.Approval
		if c.grant(&a, kind, "", 0); (c.err == nil) != good || good && a.Grant.Kind != grantset.Everything {
			t.Errorf("a grant of %s: %+v, %v", kind, a.Grant, c.err)
		}
		first := fmt.Errorf("first")
		c.err = first
		if c.grant(&a, "all", "", 0); c.err != first {
			t.Errorf("the first error is gone: %v", c.err)
		}
	}
}

// What is read of a row that is known is that row, where nothing has changed.
func TestStateOfAKnownRow(t *testing.T) {
	known := &row{Picks: "", Used: 5}
	known.A = approval.Approval{ID: approval.ID{1}, Client: "quill", EndsAt: 90, Grant: grantset.Set{Kind: grantset.Everything}, State: approval.State{Phase: approval.Live, Generation: 2, Key: 1}}
	for _, tt := range []struct {
		name   string
		values []string // generation, key, kind, picks, personal, used, end
		same   bool
	}{
		{"nothing", []string{"2", "1", "everything", "", "0", "5", "90"}, true},
		{"a refresh", []string{"3", "1", "everything", "", "0", "5", "90"}, false},
		{"a key", []string{"2", "2", "everything", "", "0", "5", "90"}, false},
		{"a grant", []string{"2", "1", "organization", "", "0", "5", "90"}, false},
		{"picks", []string{"2", "1", "roles", "host=read", "0", "5", "90"}, false},
		{"personal items", []string{"2", "1", "roles", "", "1", "5", "90"}, false},
		{"a use", []string{"2", "1", "everything", "", "0", "6", "90"}, false},
		{"an end", []string{"2", "1", "everything", "", "0", "5", "91"}, false},
	} {
		known.Read.Store(10)
		c := of(pgx.TextFormatCode, tt.values...)
		got := c.state(known, 20)
		said := []string{fmt.Sprint(got.A.Generation), fmt.Sprint(got.A.Key), string(got.A.Grant.Kind), got.Picks, fmt.Sprint(map[bool]int{true: 1}[got.A.Grant.Personal]), fmt.Sprint(got.Used), fmt.Sprint(got.A.EndsAt)}
		if (got == known) != tt.same || got.Read.Load() != 20 || got.A.Client != "quill" || strings.Join(said, ",") != strings.Join(tt.values, ",") || (known.Read.Load() == 20) != tt.same {
			t.Errorf("%s: %q, %v, %v", tt.name, said, got == known, c.err)
		}
	}
}

// A row is read whole where all of it is asked for, without its code where a check is, and of
// one that cannot be read the approval is named.
func TestRowsAsTheyCome(t *testing.T) {
	id := "0123456789abcdef"
	check := []string{`\x` + fmt.Sprintf("%x", id), "quill", "ada", "nordlys", "roles", "treasurer=change", "1", "11", "12", "13", "14", "2", "15", "16", "17", "18", "19", "20", `\x07`}
	code := []string{"https://quill.example/cb", "https://issuer.example", "c", "21", "replaced", "unused", "22"}
	want := approval.Approval{ID: approval.ID([]byte(id)), Client: "quill", Person: "ada", Organization: "nordlys", IssuedAt: 18, EndsAt: 20}
	want.Born.Membership, want.Born.Person, want.Born.Organization, want.Born.Client = 11, 12, 13, 14
	want.Phase, want.Generation, want.Key, want.Network, want.Bound = approval.Live, 15, 16, 17, approval.Thumbprint{7}
	var err error
	if want.Grant, err = grantset.Decode("roles", "treasurer=change", true); err != nil {
		t.Fatal(err)
	}
	whole := want
	whole.RedirectURI, whole.Issuer, whole.Challenge, whole.CreatedAt = code[0], code[1], code[2], 21
	whole.Replace, whole.Reason, whole.EndedAt = true, "unused", 22
	for _, tt := range []struct {
		what     int
		values   []string
		want     approval.Approval
		replaces string
	}{{Checks, check, want, ""}, {Wholes, append(check[:len(check):len(check)], code...), whole, "replaced"}} {
		got, err := of(pgx.TextFormatCode, tt.values...).row(&Reading{What: tt.what, Began: 9})
		if err != nil {
			t.Fatal(err)
		}
		if said := fmt.Sprintf("%+v", got.A); said != fmt.Sprintf("%+v", tt.want) || got.Picks != "treasurer=change" || got.Used != 19 || got.replaces != tt.replaces || got.Read.Load() != 9 {
			t.Errorf("%d: %s, picks %q, used %d, replaces %q, read at %d; want %+v", tt.what, said, got.Picks, got.Used, got.replaces, got.Read.Load(), tt.want)
		}
	}
	bad := append([]string{}, check...)
	bad[12] = "x"
	if got, err := of(pgx.TextFormatCode, bad...).row(&Reading{What: Checks}); got != nil || err == nil || !strings.Contains(err.Error(), "approval "+want.ID.String()+": column c12:") {
		t.Errorf("%v, %v", got, err)
	}
}
