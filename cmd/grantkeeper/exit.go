package main

import (
	"errors"
	"fmt"
	"strings"
)

// The exit codes of every command.
const (
	exitFailed    = 1 // failed, or demo differed
	exitUse       = 2 // wrong flag or argument
	exitConfig    = 3 // the configuration is not valid
	exitReach     = 4 // cannot reach or open a database, port or file
	exitUnknown   = 5 // no such client, approval or person
	exitState     = 6 // refused by state, such as already running on these data
	exitInterrupt = 130
	exitTerminate = 143
)

// exitError ends the program with a code. It is printed as one line that says
// what failed and, if there is one, a line that says what to do.
type exitError struct {
	code int
	what string
	hint string
}

func (e *exitError) Error() string { return e.what }

// mistakes are several of one configuration, in their order: at least one. They
// end the program with the code of the first, which alone is printed.
type mistakes []*exitError

// everyMistake has all of them printed: by the command that is asked for them.
type everyMistake struct{ mistakes }

func (m mistakes) Unwrap() error { return m[0] }

func (m mistakes) Error() string {
	var what []string
	for _, one := range m {
		what = append(what, one.what)
	}
	return strings.Join(what, "; ")
}

// together makes one error of the mistakes, or nil of none. What ends the
// program without a code comes alone.
func together(errs []error) error {
	var all mistakes
	for _, err := range errs {
		var one *exitError
		if more, ok := errors.AsType[mistakes](err); ok {
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

func badConfig(hint, format string, args ...any) error {
	return &exitError{exitConfig, fmt.Sprintf(format, args...), hint}
}

func wrongUse(hint, format string, args ...any) error {
	return &exitError{exitUse, fmt.Sprintf(format, args...), hint}
}

func cannotOpen(hint, format string, args ...any) error {
	return &exitError{exitReach, fmt.Sprintf(format, args...), hint}
}

// alreadyThere refuses to write over a file.
func alreadyThere(name string) error {
	return &exitError{exitState, name + " is there already, nothing was written", "choose another name"}
}

// codeOf gives the exit code of an error.
func codeOf(err error) int {
	var e *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.code
	}
	return exitFailed
}
