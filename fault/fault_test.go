package fault

import (
	"errors"
	"testing"
)

// Several mistakes are one error that names all, with the code and the hint of
// the first; one is itself, none is none.
func TestJoin(t *testing.T) {
	a, b, c := BadConfig("do a", "a is %s", "wrong"), CannotOpen("do b", "b is %s", "wrong"), WrongUse("do c", "c is %s", "wrong")
	if err := Join(nil); err != nil {
		t.Errorf("of none: %v", err)
	}
	if err := Join([]error{b}); err != b {
		t.Errorf("of one: %v", err)
	}
	err := Join([]error{a, Join([]error{b, c})})
	var first *Error
	if !errors.As(err, &first) || err.Error() != "a is wrong; b is wrong; c is wrong" || *first != (Error{Code: Config, What: "a is wrong", Hint: "do a"}) {
		t.Errorf("of three: %v, %+v", err, first)
	}
	if other := errors.New("other"); Join([]error{a, other}) != other {
		t.Error("an error without a code is lost")
	}
}

func TestCodeOf(t *testing.T) {
	for want, err := range map[int]error{0: nil, 1: errors.New("other"), 2: WrongUse("", ""), 3: BadConfig("", ""), 4: CannotOpen("", "")} {
		if got := CodeOf(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}

// What scripts decide on, as the manual lists them.
func TestCodes(t *testing.T) {
	if got, want := [...]int{Failed, Use, Config, Reach, Unknown, State, Interrupt, Terminate}, [...]int{1, 2, 3, 4, 5, 6, 130, 143}; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestAlreadyThere(t *testing.T) {
	err := AlreadyThere("a.json")
	if CodeOf(err) != State || err.Error() != "a.json is there already, nothing was written" {
		t.Errorf("%v", err)
	}
}
