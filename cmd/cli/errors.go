package cli

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// errQuiet ends a command with code 1 after it has said everything itself.
var errQuiet = errors.New("failed")

// usageError is a wrong command line: code 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// isBrokenPipe tells that the reader of the output has gone, as `head` does: nothing is wrong then.
func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		name := strings.TrimPrefix(cmd.CommandPath()+" "+args[0], cmd.Root().Name()+" ")
		if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
			return usagef("there is no command %q; did you mean %q?", name, names[0])
		}
		var names []string
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				names = append(names, sub.Name())
			}
		}
		return usagef("there is no command %q; there are %s", name, strings.Join(names, ", "))
	}
	return usagef("%s takes no argument %q", cmd.CommandPath(), args[0])
}

// oneTopic is the argument rule of commands on one topic.
func oneTopic(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usagef("name a topic: %s TOPIC", cmd.CommandPath())
	case len(args) > 1:
		return usagef("%s takes one topic, not %q as well", cmd.CommandPath(), args[1])
	}
	return nil
}

// someTopics is the argument rule of commands on one topic or more.
func someTopics(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("name a topic: %s TOPIC...", cmd.CommandPath())
	}
	return nil
}

// refuseEmpty refuses a flag that is given without a value, which is what a variable that is not set leaves.
func refuseEmpty(cmd *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if flag := cmd.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" {
			return usagef("--%s is empty: give it a value or leave it out (a variable that is not set?)", name)
		}
	}
	return nil
}

// flagError says what a flag expects, in place of what the parser of its type met.
func flagError(_ *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	expected := ""
	switch invalid.GetFlag().Value.Type() {
	case "int16":
		expected = "a whole number up to 32767"
	case "int32":
		expected = "a whole number up to 2147483647"
	case "int", "int64", "uint64":
		expected = "a whole number"
	case "int32Slice":
		expected = "a whole number, or several with commas between"
	case "duration":
		expected = "a duration like 500ms, 10s or 5m"
	case "float64":
		expected = "a number"
	case "bool":
		expected = "true or false"
	default:
		return err
	}
	return fmt.Errorf("--%s %q is not %s", invalid.GetFlag().Name, invalid.GetValue(), expected)
}
