package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// parse reads a value as its definition's type asks for and checks it. Surrounding blanks do not count.
func (d *Definition) parse(value string) (Parsed, error) {
	v := Parsed{Text: strings.TrimSpace(value)}
	var ok bool
	switch d.Type {
	case Bool:
		switch strings.ToLower(v.Text) {
		case "true":
			v.Bool, ok = true, true
		case "false":
			ok = true
		}
		if !ok {
			return v, d.invalid(value, "expected true or false")
		}
	case Int, Short, Long:
		if v.Number, ok = parseNumber(v.Text, d.Type); !ok {
			return v, d.invalid(value, "not a number of type "+d.Type.String())
		}
	case Double:
		var err error
		if v.Double, err = strconv.ParseFloat(v.Text, 64); err != nil || math.IsNaN(v.Double) {
			return v, d.invalid(value, "not a number of type double")
		}
	case List:
		for element := range strings.SplitSeq(v.Text, ",") {
			if element = strings.TrimSpace(element); element != "" {
				v.List = append(v.List, element)
			}
		}
	}
	if d.Check != nil {
		if err := d.Check(v); err != nil {
			return v, d.invalid(value, err.Error())
		}
	}
	if d.Standing == Refused && !d.isDefault(v) {
		return v, &Error{Kind: KindRefused, Name: d.Name, Value: value, Reason: d.Reason}
	}
	return v, nil
}

// isDefault compares in the form that the type asks for, so that TRUE is true.
func (d *Definition) isDefault(v Parsed) bool {
	if d.Null {
		return false
	}
	return d.canonical(v) == d.canonical(d.defaultValue())
}

// canonical is the text by which equal values are equal.
func (d *Definition) canonical(v Parsed) string {
	switch d.Type {
	case Bool:
		return strconv.FormatBool(v.Bool)
	case Int, Short, Long:
		return strconv.FormatInt(v.Number, 10)
	case List:
		return strings.Join(v.List, ",")
	}
	return v.Text
}

// defaultValue returns the parsed default of a definition that has one. The table's own values are legal,
// which a test makes sure of.
func (d *Definition) defaultValue() Parsed {
	unchecked := Definition{Name: d.Name, Type: d.Type}
	v, err := unchecked.parse(d.Default)
	if err != nil {
		panic(err)
	}
	return v
}

func parseNumber(text string, t Type) (int64, bool) {
	bits := 64
	switch t {
	case Int:
		bits = 32
	case Short:
		bits = 16
	}
	n, err := strconv.ParseInt(text, 10, bits)
	return n, err == nil
}

func (d *Definition) invalid(value, reason string) *Error {
	if d.Sensitive {
		value = "[hidden]"
	}
	return &Error{Kind: KindInvalid, Name: d.Name, Value: value, Reason: reason}
}

// The checks that the table uses.

func atLeast(low int64) (func(Parsed) error, string) {
	check := func(v Parsed) error {
		if v.Number < low {
			return fmt.Errorf("value must be at least %d", low)
		}
		return nil
	}
	return check, fmt.Sprintf("[%d,...]", low)
}

func between(low, high int64) (func(Parsed) error, string) {
	check := func(v Parsed) error {
		if v.Number < low || v.Number > high {
			return fmt.Errorf("value must be %d to %d", low, high)
		}
		return nil
	}
	return check, fmt.Sprintf("[%d,...,%d]", low, high)
}

func oneOf(values ...string) (func(Parsed) error, string) {
	all := strings.Join(values, ", ")
	check := func(v Parsed) error {
		for _, legal := range values {
			if v.Text == legal {
				return nil
			}
		}
		return fmt.Errorf("value must be one of %s", all)
	}
	return check, "[" + all + "]"
}
