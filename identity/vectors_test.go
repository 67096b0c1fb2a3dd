package identity

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"
)

// A vector is a request with what is read of it: what services in all languages
// agree on. They were signed apart from this program.
type vector struct {
	Name     string
	Keys     []string
	Now      int64 // Unix seconds
	Headers  [][2]string
	Call     *vectorCall
	Accepted bool
	Identity struct {
		Person, Organization, Approval, Client, Grant string
		Admin, Personal                               bool
		Roles                                         []struct{ Role, Access string }
		ReadOnly, AdminWithin, PersonalReads          bool
		Never                                         []string
	}
	Acts map[string]string
}

type vectorCall struct {
	Method, Target string
	Body           *string // nil is not asked for
}

func vectors(t testing.TB) []vector {
	t.Helper()
	text, err := os.ReadFile("../contrib/verify/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		About   []string
		Vectors []vector
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	return file.Vectors
}

func (v vector) header() http.Header {
	h := http.Header{}
	for _, pair := range v.Headers {
		h.Add(pair[0], pair[1])
	}
	return h
}

func (v vector) keys() (all [][]byte) {
	for _, k := range v.Keys {
		all = append(all, []byte(k))
	}
	return all
}

func (v vector) call() Call {
	c := Call{Method: v.Call.Method, Target: v.Call.Target, Unread: v.Call.Body == nil}
	if !c.Unread {
		c.Body = []byte(*v.Call.Body)
	}
	return c
}

func (v vector) want() (i Identity) {
	of := v.Identity
	i = Identity{Person: of.Person, Organization: of.Organization, Approval: of.Approval, Client: of.Client, Grant: of.Grant, Admin: of.Admin, Personal: of.Personal,
		ReadOnly: of.ReadOnly, Never: of.Never, AdminWithin: of.AdminWithin, PersonalReads: of.PersonalReads}
	for _, r := range of.Roles {
		i.Roles = append(i.Roles, Role{r.Role, r.Access == "change"})
	}
	return i
}

// The vectors that other languages are held to are true of this one: what they
// accept is what Sign writes, and is read; what they refuse is nobody.
func TestVectors(t *testing.T) {
	accepted, refused := 0, 0
	for _, v := range vectors(t) {
		got, err := Identity{}, error(nil)
		if now := time.Unix(v.Now, 0); v.Call == nil {
			got, err = Verify(v.header(), now, v.keys()...)
		} else {
			got, err = VerifyCall(v.header(), v.call(), now, v.keys()...)
		}
		if (err == nil) != v.Accepted || !reflect.DeepEqual(got, v.want()) {
			t.Errorf("%s: %+v, %v", v.Name, got, err)
		}
		if !v.Accepted {
			refused++
			continue
		}
		accepted++
		for role, want := range v.Acts {
			if is := got.Acts(role); is != want {
				t.Errorf("%s: through %s: %s, want %s", v.Name, role, is, want)
			}
		}
		if !slices.ContainsFunc(v.keys(), func(key []byte) bool { return v.signedBy(t, key) }) {
			t.Errorf("%s: not what Sign writes", v.Name)
		}
	}
	if accepted < 20 || refused < 60 {
		t.Errorf("only %d are accepted and %d refused", accepted, refused)
	}
}

// signedBy reports whether the headers are what is signed with a key.
func (v vector) signedBy(t *testing.T, key []byte) bool {
	t.Helper()
	h := v.header()
	text, _, err := readSignature(h.Get(HeaderSignature))
	if err != nil {
		t.Fatal(err)
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	wrote, err := v.want().Sign(key, time.Unix(seconds, 0))
	if err != nil {
		return false
	}
	if v.Call != nil && v.Call.Body != nil {
		if err := SignCall(key, wrote, v.call()); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range wrote {
		if h.Get(name) != value {
			return false
		}
	}
	return true
}
