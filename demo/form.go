package demo

import (
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// A Form is one of a page, as a browser would fill it in.
type Form struct {
	node   *html.Node
	action string
}

// forms gives the forms of a page.
func forms(page io.Reader) ([]Form, error) {
	root, err := html.Parse(page)
	if err != nil {
		return nil, err
	}
	var all []Form
	for n := range root.Descendants() {
		if is(n, "form") {
			all = append(all, Form{n, attribute(n, "action")})
		}
	}
	return all, nil
}

// FormWith gives the form that has a field of this name.
func FormWith(page io.Reader, name string) (Form, error) {
	all, err := forms(page)
	if err != nil {
		return Form{}, err
	}
	for _, f := range all {
		if len(f.inputs(name)) > 0 {
			return f, nil
		}
	}
	return Form{}, errors.New("the page has no form with the field " + name)
}

// inputs gives the input elements of a name, or all of them for "".
func (f Form) inputs(name string) []*html.Node {
	var all []*html.Node
	for n := range f.node.Descendants() {
		if is(n, "input") && (name == "" || attribute(n, "name") == name) {
			all = append(all, n)
		}
	}
	return all
}

// Values is what a browser would send if nothing was touched and no button
// pressed.
func (f Form) Values() url.Values {
	v := url.Values{}
	for _, n := range f.inputs("") {
		name := attribute(n, "name")
		switch attribute(n, "type") {
		case "radio", "checkbox":
			if name != "" && has(n, "checked") {
				v.Add(name, attribute(n, "value"))
			}
		case "submit", "button", "image", "reset":
		default:
			if name != "" {
				v.Add(name, attribute(n, "value"))
			}
		}
	}
	for n := range f.node.Descendants() {
		if name := attribute(n, "name"); is(n, "select") && name != "" {
			if chosen, ok := option(n); ok {
				v.Add(name, chosen)
			}
		}
	}
	return v
}

// option gives what is chosen in a select element: what is marked, or the first that can be.
func option(list *html.Node) (value string, ok bool) {
	for n := range list.Descendants() {
		switch {
		case !is(n, "option") || has(n, "disabled"):
		case has(n, "selected"):
			return attribute(n, "value"), true
		case !ok:
			value, ok = attribute(n, "value"), true
		}
	}
	return value, ok
}

// offers reports whether a select element of a name has an option.
func (f Form) offers(name, value string) bool {
	for n := range f.node.Descendants() {
		if is(n, "option") && !has(n, "disabled") && attribute(n, "value") == value && attribute(n.Parent, "name") == name {
			return true
		}
	}
	return false
}

// choice is what the consent page offers of one organization.
type choice struct {
	organization string // ID
	name         string
	roles        []roleChoice
}

type roleChoice struct{ field, name string }

// choices reads the organizations of the consent form, and which roles belong
// to each: those in the block .org-N of the radio button #org-N, or all when
// there are no blocks.
func (f Form) choices() []choice {
	var all []choice
	radios := f.inputs("organization")
	for _, n := range radios {
		c := choice{organization: attribute(n, "value"), name: nameIn(labelled(n))}
		within := f.node
		if len(radios) > 1 {
			within = f.block(attribute(n, "id"))
		}
		if within != nil {
			c.roles = rolesIn(within)
		}
		all = append(all, c)
	}
	return all
}

// block gives the element whose class is the ID of a radio button.
func (f Form) block(id string) *html.Node {
	for n := range f.node.Descendants() {
		if id != "" && n.Type == html.ElementNode && n.Data != "label" && slices.Contains(strings.Fields(attribute(n, "class")), id) {
			return n
		}
	}
	return nil
}

func rolesIn(n *html.Node) []roleChoice {
	var all []roleChoice
	for d := range n.Descendants() {
		name := attribute(d, "name")
		if !is(d, "input") || !strings.HasPrefix(name, "role:") ||
			slices.ContainsFunc(all, func(r roleChoice) bool { return r.field == name }) {
			continue
		}
		all = append(all, roleChoice{name, legendOf(d)})
	}
	return all
}

// legendOf is the name in the legend of the fieldset around an element.
func legendOf(n *html.Node) string {
	for p := range n.Ancestors() {
		if !is(p, "fieldset") {
			continue
		}
		for c := range p.ChildNodes() {
			if is(c, "legend") {
				return nameIn(c)
			}
		}
	}
	return ""
}

// nameIn is the first name that somebody gave in an element, which pages
// isolate, or all its text.
func nameIn(n *html.Node) string {
	for d := range n.Descendants() {
		if is(d, "bdi") {
			n = d
			break
		}
	}
	return strings.TrimSpace(textOf(n))
}

// labelled gives the name within the label around an input: its bold text, or
// all of it.
func labelled(n *html.Node) *html.Node {
	for p := range n.Ancestors() {
		if !is(p, "label") {
			continue
		}
		for d := range p.Descendants() {
			if is(d, "b") {
				return d
			}
		}
		return p
	}
	return n
}

func is(n *html.Node, tag string) bool { return n.Type == html.ElementNode && n.Data == tag }

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// heading is what a page says first, for when it is not the expected one.
func heading(page io.Reader) string {
	root, err := html.Parse(page)
	if err != nil {
		return ""
	}
	said := ""
	for n := range root.Descendants() {
		if attribute(n, "role") == "alert" {
			return textOf(n)
		}
		if is(n, "h1") && said == "" {
			said = textOf(n)
		}
	}
	return said
}
