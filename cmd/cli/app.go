package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// App is what a command line runs in. Main fills it from the process; tests fill it by hand.
type App struct {
	Args     []string // without the program's name
	In       io.Reader
	Out, Err io.Writer
	Environ  []string // NAME=VALUE
	Version  string
	// Terminal tells that Err is a terminal: progress is shown and logs are text.
	Terminal bool
	// InTerminal and OutTerminal tell it of In and Out.
	InTerminal, OutTerminal bool
	// Context ends with the caller; nil: the background.
	Context context.Context
}

// Main runs the process's own command line and returns its exit code.
func Main(version string) int {
	a := &App{
		Args: os.Args[1:], In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ(), Version: version,
		Terminal: term.IsTerminal(int(os.Stderr.Fd())), OutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		InTerminal: term.IsTerminal(int(os.Stdin.Fd())),
	}
	return a.Run()
}

// Run runs one command line and returns its exit code.
func (a *App) Run() int {
	root := a.root()
	root.SetArgs(a.Args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	ctx := a.Context
	if ctx == nil {
		ctx = context.Background()
	}
	ran, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil, isBrokenPipe(err):
		return exitDone
	case errors.Is(err, errQuiet):
		return exitFailed
	}
	var usage *usageError
	if errors.As(err, &usage) || !wasStarted(ran) {
		fmt.Fprintf(a.Err, "millrace: %v\nTry: %s --help\n", err, ran.CommandPath())
		return exitUsage
	}
	fmt.Fprintf(a.Err, "millrace: %v\n", err)
	return exitFailed
}

const startedKey = "started"

// wasStarted tells whether a command's own work began; before that every error is one of usage.
func wasStarted(cmd *cobra.Command) bool { return cmd.Annotations[startedKey] != "" }

func (a *App) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "millrace",
		Short:         "A Kafka-wire-compatible broker and its tools",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("name a command: serve, topic, shard, group, config, produce, consume, top, inspect, bench, tune, doctor or version")
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(a.serveCommand(), a.topicCommand(), a.shardCommand(), a.groupCommand(), a.configCommand(), a.produceCommand(), a.consumeCommand(),
		a.topCommand(), a.inspectCommand(), a.benchCommand(), a.tuneCommand(), a.doctorCommand(), a.versionCommand(), a.docsCommand())
	markStarts(root)
	return root
}

// markStarts wraps every RunE so that Run can tell a wrong command line from work that failed.
func markStarts(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(c *cobra.Command, args []string) error {
			if c.Annotations == nil {
				c.Annotations = map[string]string{}
			}
			c.Annotations[startedKey] = "yes"
			return run(c, args)
		}
	}
	for _, sub := range cmd.Commands() {
		markStarts(sub)
	}
}

// printJSON writes v as indented JSON and a newline.
func (a *App) printJSON(v any) error {
	encoder := json.NewEncoder(a.Out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
