package identity

import (
	"bytes"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

var (
	key  = []byte("0123456789abcdef0123456789abcdef")
	noon = time.Unix(1_772_445_600, 0)

	ada = Identity{
		Person: "ada", Organization: "nordlys", Approval: "00112233445566778899aabbccddeeff", Client: "client-1", Grant: "roles",
		Personal: true, Roles: []Role{{"host", false}, {"treasurer", true}},
	}
	script = Identity{Person: "tor", Organization: "nordlys", Grant: "everything", Admin: true, Personal: true}
)

// headers gives what a service receives.
func headers(t testing.TB, i Identity) http.Header {
	t.Helper()
	signed, err := i.Sign(key, noon)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	for name, value := range signed {
		h.Set(name, value)
	}
	return h
}

// The string that is signed is an interface: the value was computed apart from
// this program, by printf and openssl, as docs/integrating.md shows.
func TestWhatIsSigned(t *testing.T) {
	got, err := ada.Sign(key, noon)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"X-Grantkeeper-Person": "ada", "X-Grantkeeper-Organization": "nordlys",
		"X-Grantkeeper-Approval": "00112233445566778899aabbccddeeff", "X-Grantkeeper-Client": "client-1",
		"X-Grantkeeper-Grant": "roles", "X-Grantkeeper-Authority": "personal,host=read,treasurer=change",
		"X-Grantkeeper-Signature": "t=1772445600,v1=577ba6aa6fba6fee4a828fdc9a574b0d2d1c94c53b9f818dbc5b5869835e381c",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for name := range got {
		if !strings.HasPrefix(name, Prefix) || name != http.CanonicalHeaderKey(name) {
			t.Errorf("header %s", name)
		}
	}
}

func TestWhatIsSignedIsRead(t *testing.T) {
	for name, i := range map[string]Identity{
		"roles": ada, "API key": script, "nothing left": {Person: "a", Organization: "o", Approval: "x", Client: "c", Grant: "roles"},
		"a preregistered client at the bounds of an ID": {Person: "a", Organization: "o", Approval: "x", Client: "!~", Grant: "roles"},
		"a role called admin":                           {Person: "a", Organization: "o", Grant: "roles", Roles: []Role{{"admin", true}, {"personal", false}}},
	} {
		got, err := Verify(headers(t, i), noon, key)
		if err != nil || !reflect.DeepEqual(got, i) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestActs(t *testing.T) {
	for _, tt := range []struct {
		of         Identity
		role, want string
	}{
		{ada, "treasurer", "change"}, {ada, "host", "read"}, {ada, "guide", "none"}, {ada, "", "none"},
		{script, "guide", "change"}, {Identity{Grant: "organization"}, "guide", "change"}, {Identity{}, "guide", "none"},
	} {
		if got := tt.of.Acts(tt.role); got != tt.want {
			t.Errorf("%s through %q: %s, want %s", tt.of.Grant, tt.role, got, tt.want)
		}
	}
}

// Refusals: whatever is not exactly what was signed, once, just now, is nobody.
func TestWhatIsNotSignedIsNobody(t *testing.T) {
	set := func(name, value string) func(http.Header) { return func(h http.Header) { h.Set(name, value) } }
	other := bytes.Repeat([]byte("k"), MinKey)
	for _, tt := range []struct {
		name   string
		change func(http.Header)
		now    time.Time
		keys   [][]byte
		want   string // in the error
	}{
		{"another person", set(HeaderPerson, "tor"), noon, [][]byte{key}, "known key"},
		{"another organization", set(HeaderOrganization, "fjell"), noon, [][]byte{key}, "known key"},
		{"another approval", set(HeaderApproval, "ff"), noon, [][]byte{key}, "known key"},
		{"another client", set(HeaderClient, "client-2"), noon, [][]byte{key}, "known key"},
		{"no client", func(h http.Header) { h.Del(HeaderClient) }, noon, [][]byte{key}, "known key"},
		{"a wider grant", set(HeaderGrant, "everything"), noon, [][]byte{key}, "known key"},
		{"a wider authority", set(HeaderAuthority, "admin"), noon, [][]byte{key}, "known key"},
		{"values exchanged", func(h http.Header) { h.Set(HeaderPerson, "nordlys"); h.Set(HeaderOrganization, "ada") }, noon, [][]byte{key}, "known key"},
		{"another time", func(h http.Header) {
			h.Set(HeaderSignature, strings.Replace(h.Get(HeaderSignature), "t=1772445600", "t=1772445601", 1))
		}, noon, [][]byte{key}, "known key"},
		{"no signature", func(h http.Header) { h.Del(HeaderSignature) }, noon, [][]byte{key}, "missing"},
		{"an empty signature", set(HeaderSignature, ""), noon, [][]byte{key}, "missing"},
		{"half a signature", set(HeaderSignature, "t=1772445600"), noon, [][]byte{key}, "not t="},
		{"a short signature", set(HeaderSignature, "t=1772445600,v1=00"), noon, [][]byte{key}, "not t="},
		{"a signature in capitals", func(h http.Header) {
			h.Set(HeaderSignature, strings.Replace(strings.ToUpper(h.Get(HeaderSignature)), "T=1772445600,V1", "t=1772445600,v1", 1))
		}, noon, [][]byte{key}, "not t="},
		{"more behind it", func(h http.Header) { h.Set(HeaderSignature, h.Get(HeaderSignature)+",v2=00") }, noon, [][]byte{key}, "not t="},
		{"two persons", func(h http.Header) { h.Add(HeaderPerson, "tor") }, noon, [][]byte{key}, "twice"},
		{"two signatures", func(h http.Header) { h.Add(HeaderSignature, h.Get(HeaderSignature)) }, noon, [][]byte{key}, "twice"},
		{"a line feed", set(HeaderPerson, "ada\nnordlys"), noon, [][]byte{key}, "visible"},
		{"a minute ago and a second", nil, noon.Add(Tolerance + time.Second), [][]byte{key}, "another time"},
		{"from the future", nil, noon.Add(-Tolerance - time.Second), [][]byte{key}, "another time"},
		{"another key", nil, noon, [][]byte{other}, "known key"},
		{"no key", nil, noon, nil, "known key"},
		{"nothing at all", func(h http.Header) { clear(h) }, noon, [][]byte{key}, "missing"},
	} {
		h := headers(t, ada)
		if tt.change != nil {
			tt.change(h)
		}
		if got, err := Verify(h, tt.now, tt.keys...); err == nil || !reflect.DeepEqual(got, Identity{}) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
	for _, within := range []time.Duration{-Tolerance, Tolerance} {
		if _, err := Verify(headers(t, ada), noon.Add(within), other, key); err != nil {
			t.Errorf("%v away, by the second key: %v", within, err)
		}
	}
}

// A key that anybody could guess signs nothing and proves nothing.
func TestShortKeys(t *testing.T) {
	for _, short := range [][]byte{nil, {}, key[:MinKey-1]} {
		if _, err := ada.Sign(short, noon); err == nil {
			t.Errorf("signed with %d bytes", len(short))
		}
		values := [len(signed)]string{ada.Person, ada.Organization, ada.Approval, ada.Client, ada.Grant, ada.authority()}
		if signedByOne([][]byte{short}, "1772445600", values, mac(short, "1772445600", values)) {
			t.Errorf("%d bytes prove something", len(short))
		}
	}
}

func TestUnsafeValuesAreNotSigned(t *testing.T) {
	for _, unsafe := range []string{"a b", "a\r\nX-Evil: 1", "ä", "\x00", "a\x7f"} {
		for _, i := range []Identity{
			{Person: unsafe}, {Organization: unsafe}, {Approval: unsafe}, {Client: unsafe}, {Grant: unsafe}, {Roles: []Role{{ID: unsafe}}},
		} {
			if h, err := i.Sign(key, noon); err == nil {
				t.Errorf("%q was signed: %v", unsafe, h)
			}
		}
	}
}

// What is accepted is what Sign writes for the same identity, and nothing else.
func FuzzVerify(f *testing.F) {
	good := headers(f, ada)
	f.Add(good.Get(HeaderPerson), good.Get(HeaderClient), good.Get(HeaderAuthority), good.Get(HeaderSignature))
	f.Add("ada", "", "admin,,=read,x=change", "t=-1,v1=")
	f.Fuzz(func(t *testing.T, person, client, authority, signature string) {
		h := headers(t, ada)
		h.Set(HeaderPerson, person)
		h.Set(HeaderClient, client)
		h.Set(HeaderAuthority, authority)
		h.Set(HeaderSignature, signature)
		i, err := Verify(h, noon, key)
		if err != nil {
			if !reflect.DeepEqual(i, Identity{}) {
				t.Fatalf("refused, and yet %+v", i)
			}
			return
		}
		if !reflect.DeepEqual(i, ada) || signature != good.Get(HeaderSignature) {
			t.Fatalf("%+v was taken", i)
		}
	})
}

func TestUnknownWordsAreNoAuthority(t *testing.T) {
	for _, bad := range []string{",", "admin,", "Admin", "=read", "=", "a", "a=", "a=write", "a=read=change", "a=Read", "admin=", "personal,=change"} {
		var i Identity
		if err := i.readAuthority(bad); err == nil {
			t.Errorf("%q gives %+v", bad, i)
		}
	}
}

// Words of the authority are read back, or refused.
func FuzzAuthority(f *testing.F) {
	for _, s := range []string{"", "admin", "admin,personal,a=read,b=change", "personal,admin", "a=", "=read", ",", "a=b=read"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var i, again Identity
		if i.readAuthority(s) != nil {
			return
		}
		if err := again.readAuthority(i.authority()); err != nil || !reflect.DeepEqual(i, again) {
			t.Fatalf("%q gives %+v, which gives %+v, %v", s, i, again, err)
		}
	})
}
