// Package fault has the errors that a person is told: one line of what is wrong,
// one of what to do, and the exit code that a command ends with.
package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

// The exit codes of every command.
const (
	Failed    = 1 // failed, or demo differed
	Use       = 2 // wrong flag or argument
	Config    = 3 // the configuration is not valid
	Reach     = 4 // cannot reach or open a database, port or file
	Unknown   = 5 // no such client, approval or person
	State     = 6 // refused by state, such as already running on these data
	Interrupt = 130
	Terminate = 143
)

// An Error ends the program with a code. It is printed as one line that says
// what failed and, if there is one, a line that says what to do.
type Error struct {
	Code int // one of the above, never 0
	What string
	Hint string // "" is none
	Left bool   // it says what stays behind: whoever has ended the program is told of it too
}

func (e *Error) Error() string { return e.What }

// Several are the mistakes of one configuration, in their order: at least one. They
// end the program with the code of the first, which alone is printed.
type Several []*Error

func (m Several) Unwrap() error { return m[0] }

func (m Several) Error() string {
	var what []string
	for _, one := range m {
		what = append(what, one.What)
	}
	return strings.Join(what, "; ")
}

// Join makes one error of the mistakes, or nil of none. What ends the
// program without a code comes alone.
func Join(errs []error) error {
	var all Several
	for _, err := range errs {
		var one *Error
		if more, ok := errors.AsType[Several](err); ok {
			all = append(all, more...)
		} else if errors.As(err, &one) {
			all = append(all, one)
		} else {
			return err
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return all
}

// BadConfig is an Error with code Config.
func BadConfig(hint, format string, args ...any) error {
	return &Error{Code: Config, What: fmt.Sprintf(format, args...), Hint: hint}
}

// WrongUse is an Error with code Use.
func WrongUse(hint, format string, args ...any) error {
	return &Error{Code: Use, What: fmt.Sprintf(format, args...), Hint: hint}
}

// CannotOpen is an Error with code Reach.
func CannotOpen(hint, format string, args ...any) error {
	return &Error{Code: Reach, What: fmt.Sprintf(format, args...), Hint: hint}
}

// CodeOf gives the exit code of an error: 0 of none, Failed of one that has none.
func CodeOf(err error) int {
	var e *Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.Code
	}
	return Failed
}

// NoRoom reports whether a file could not be written for want of room.
func NoRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// MendWriting says what lets a file be written that could not be.
func MendWriting(err error) string {
	switch {
	case NoRoom(err):
		return "make room there, or choose another place"
	case errors.Is(err, syscall.EROFS):
		return "choose a place that is not read-only"
	case errors.Is(err, fs.ErrNotExist):
		return "make the folder, or choose another place"
	case errors.Is(err, fs.ErrPermission):
		return "choose a place that this user may write in"
	}
	return "choose another place"
}

// AlreadyThere refuses to write over a file.
func AlreadyThere(name string) error {
	return &Error{Code: State, What: name + " is there already, nothing was written", Hint: "choose another name"}
}
