package main

import (
	"errors"
	"fmt"
)

// The exit codes of every command.
const (
	exitFailed    = 1 // failed, or demo differed
	exitUse       = 2 // wrong flag or argument
	exitConfig    = 3 // the configuration is not valid
	exitReach     = 4 // cannot reach or open a database, port or file
	exitUnknown   = 5 // no such client, approval, person or item
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
