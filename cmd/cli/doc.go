// Package cli is the command line of millrace: one file a command. Results go to standard output, everything
// else to standard error. The exit code is 0 when the work is done, 1 when it failed, and 2 when the
// command line or the settings are wrong. Every listing has --json.
package cli
