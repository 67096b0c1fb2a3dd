package consent

import (
	"strings"
	"testing"
)

var orders = Nouns{"orders", map[string]string{"one": "{n} order", "other": "{n} orders"}}

func TestCheckNouns(t *testing.T) {
	with := func(category, text string) Nouns {
		n := Nouns{orders.Items, map[string]string{"one": "{n} order", "other": "{n} orders"}}
		n.Count[category] = text
		if text == "" {
			delete(n.Count, category)
		}
		return n
	}
	arabic := Nouns{"طلبات", map[string]string{"zero": "لا طلبات", "one": "طلب واحد", "two": "طلبان", "few": "{n} طلبات", "many": "{n} طلبًا", "other": "{n} طلب"}}
	for tag, n := range map[string]Nouns{"en": orders, "de": {"Bestellungen & Aufträge", orders.Count}, "nl": with("one", "one order"), "ar": arabic,
		"fr": {strings.Repeat("é", 40), orders.Count}} {
		if err := CheckNouns(tag, n); err != nil {
			t.Errorf("%s: %v", tag, err)
		}
	}
	for name, n := range map[string]Nouns{
		"nothing": {}, "no items": {"", orders.Count}, "markup": {"<b>orders</b>", orders.Count}, "a number": {"{n} orders", orders.Count}, "two lines": {"or\nders", orders.Count},
		"too long": {strings.Repeat("é", 41), orders.Count}, "turned around": {"orders\u202e", orders.Count}, "a space": {"orders ", orders.Count},
		"no count": {Items: "orders"}, "a category of another language": with("few", "{n} orders"), "a category too few": with("one", ""),
		"no number in other": with("other", "orders"), "another value": with("one", "{n} {names}"), "two numbers": with("other", "{n}{n}"),
		"a long form": with("other", "{n}"+strings.Repeat("x", 38)), "markup in a form": with("other", "<link>{n}</link>"),
	} {
		if err := CheckNouns("en", n); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if CheckNouns("en", arabic) == nil || CheckNouns("ar", orders) == nil || CheckNouns("xx", orders) == nil || CheckNouns("", orders) == nil {
		t.Error("nouns of another language are taken")
	}
}

// Decision V52: a service's nouns stand in every sentence of their language, and of no other.
func TestNouns(t *testing.T) {
	s := newSite(t)
	s.items()
	s.Nouns = map[string]Nouns{"en": orders}
	s.Rebrand(s.Branding)
	ada := s.signedIn("ada")
	p := ada.get(authorize()).press("/oauth/authorize", "organization", "nordlys", "grant", "roles", "role:buddy", "change", "personal", "1", "action", "preview").
		says("It may change 1 order as Buddy, and 5 orders of your own.", "It may read, but not change, 53 orders.", "Also my personal orders")
	if !strings.Contains(p.body, "Your personal orders in {organization}") || strings.Contains(p.body, "entries") {
		t.Error(p.body)
	}
	s.Preview = nil
	ada.get(authorize()).press("/oauth/authorize", "organization", "nordlys", "grant", "organization", "action", "preview").
		says("It gets nothing of personal orders, yours included.")
	ada.header.Set("Accept-Language", "de")
	if p := ada.get(authorize()).says("Auch meine persönlichen Einträge"); strings.Contains(p.body, "orders") {
		t.Error(p.body)
	}
}
