package page

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"
)

// A phrase is a message of the catalogue: forms by plural category or number.
// One that does not count has the form other alone.
type phrase map[string]Said

// catalogue has the messages of each language by its tag. A language is read
// when the first page speaks it: all of them are 2 MB, most of which few
// services need.
var catalogue = func() map[string]func() map[string]phrase {
	all := map[string]func() map[string]phrase{}
	for _, t := range tongues {
		all[t.Tag] = sync.OnceValue(func() map[string]phrase {
			text, err := wordFiles.ReadFile("words/" + t.Tag + ".toml")
			if err != nil {
				panic(err) // embedded
			}
			phrases, err := readPhrases(text)
			if err != nil {
				panic(fmt.Errorf("words in %s: %w", t.Name, err)) // embedded
			}
			return phrases
		})
	}
	return all
}()

// readPhrases reads a file of the catalogue.
func readPhrases(file []byte) (map[string]phrase, error) {
	var tree map[string]any
	if err := toml.Unmarshal(file, &tree); err != nil {
		return nil, err
	}
	out := map[string]phrase{}
	return out, addPhrases(out, "", tree)
}

func addPhrases(to map[string]phrase, id string, node any) error {
	switch n := node.(type) {
	case string:
		form, err := readMessage(n)
		if err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		to[id] = phrase{"other": form}
	case map[string]any:
		if counts(n) {
			return addForms(to, id, n)
		}
		for key, below := range n {
			if err := addPhrases(to, strings.TrimPrefix(id+"."+key, "."), below); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("%s: not text", id)
	}
	return nil
}

// counts reports whether a table is a message with forms, and not messages.
func counts(node map[string]any) bool {
	for key := range node {
		_, err := strconv.Atoi(key)
		if err != nil && !slices.Contains([]string{"zero", "one", "two", "few", "many", "other"}, key) {
			return false
		}
	}
	_, ok := node["other"]
	return ok
}

func addForms(to map[string]phrase, id string, forms map[string]any) error {
	to[id] = phrase{}
	for key, text := range forms {
		t, ok := text.(string)
		if !ok {
			return fmt.Errorf("%s.%s: not text", id, key)
		}
		form, err := readMessage(t)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", id, key, err)
		}
		to[id][key] = form
	}
	return nil
}

// readMessage reads the text of a message.
func readMessage(text string) (Said, error) {
	out, rest, err := readParts(text, "")
	if err == nil && rest != "" {
		err = fmt.Errorf("%q closes nothing", rest)
	}
	return out, err
}

// readParts reads up to the closing tag of what it is in.
func readParts(text, in string) (out Said, rest string, err error) {
	for text != "" {
		i := strings.IndexAny(text, "{<")
		if i < 0 {
			i = len(text)
		}
		if i > 0 {
			out = append(out, Part{Kind: "text", Text: text[:i]})
			text = text[i:]
			continue
		}
		if name, after, ok := strings.Cut(text[1:], "}"); text[0] == '{' && ok {
			out, text = append(out, Part{Kind: "value", Text: name}), after
			continue
		}
		tag, after, ok := strings.Cut(text[1:], ">")
		switch {
		case !ok || text[0] == '{':
			return nil, "", fmt.Errorf("%q ends too early", text)
		case tag == "/"+in && in != "":
			return out, after, nil
		case tag != "b" && tag != "code" && tag != "link":
			return nil, "", fmt.Errorf("<%s> is not for messages", tag)
		}
		inside, after, err := readParts(after, tag)
		if err != nil {
			return nil, "", err
		}
		out, text = append(out, Part{Kind: tag, Parts: inside}), after
	}
	if in != "" {
		return nil, "", fmt.Errorf("<%s> is not closed", in)
	}
	return out, "", nil
}
