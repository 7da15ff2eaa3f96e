package config

import (
	"errors"
	"fmt"
	"strings"
)

// Kind tells faults of settings apart.
type Kind uint8

// The kinds.
const (
	KindUnknown    Kind = iota + 1 // there is no such setting
	KindInvalid                    // the value has the wrong type or is out of its range
	KindRefused                    // a legal value that this program does not support
	KindNotDynamic                 // the setting can only be set at the start
	KindNull                       // no value was given
	KindNotList                    // append and subtract need a list
	KindConflict                   // two settings contradict each other
)

// Error is one fault of one setting. Its text is made for the one who set it.
type Error struct {
	Kind   Kind
	Name   string
	Value  string
	Reason string
	Origin string // where it was written, where that is known
	Near   string // for KindUnknown: the nearest valid name
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	switch e.Kind {
	case KindUnknown:
		fmt.Fprintf(&b, "unknown setting %s", e.Name)
	case KindInvalid:
		fmt.Fprintf(&b, "invalid value %q for %s: %s", e.Value, e.Name, e.Reason)
	case KindRefused:
		fmt.Fprintf(&b, "value %q for %s is not supported: %s", e.Value, e.Name, e.Reason)
	case KindNotDynamic:
		fmt.Fprintf(&b, "%s cannot be changed while the broker runs: set it in the broker's settings and restart it", e.Name)
	case KindNull:
		fmt.Fprintf(&b, "null value for %s: leave it out to get the default", e.Name)
	case KindNotList:
		fmt.Fprintf(&b, "%s is not a list: it can be set and deleted only", e.Name)
	case KindConflict:
		fmt.Fprintf(&b, "%s: %s", e.Name, e.Reason)
	}
	if e.Origin != "" {
		fmt.Fprintf(&b, " (%s)", e.Origin)
	}
	if e.Near != "" {
		fmt.Fprintf(&b, "; did you mean %s?", e.Near)
	}
	return b.String()
}

// Faults is more than one Error.
type Faults []error

// Error implements error.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, err := range f {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "; ")
}

// Unwrap lets errors.As find each.
func (f Faults) Unwrap() []error { return f }

// join returns nil for none, the error itself for one.
func join(faults []error) error {
	switch len(faults) {
	case 0:
		return nil
	case 1:
		return faults[0]
	}
	return Faults(faults)
}

// KindOf returns the kind of the first Error in err, 0 if there is none.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}

// Null returns the fault of a setting that was given null as its value.
func Null(name string) error { return &Error{Kind: KindNull, Name: name} }

func unknown(scope Scope, name string) *Error {
	return &Error{Kind: KindUnknown, Name: name, Near: Nearest(scope, name)}
}
