package meta

import (
	"fmt"
	"log/slog"
	"runtime"
)

// raftLogger brings the lines of the Raft library to slog. What it calls information is about every
// election and is debugging to an operator.
type raftLogger struct{ logger *slog.Logger }

func (l raftLogger) Debug(v ...any) { l.logger.Debug("raft", "detail", fmt.Sprint(v...)) }
func (l raftLogger) Debugf(format string, v ...any) {
	l.logger.Debug("raft", "detail", fmt.Sprintf(format, v...))
}
func (l raftLogger) Info(v ...any)                 { l.Debug(v...) }
func (l raftLogger) Infof(format string, v ...any) { l.Debugf(format, v...) }
func (l raftLogger) Warning(v ...any)              { l.logger.Warn("raft", "detail", fmt.Sprint(v...)) }
func (l raftLogger) Warningf(format string, v ...any) {
	l.logger.Warn("raft", "detail", fmt.Sprintf(format, v...))
}
func (l raftLogger) Error(v ...any) { l.logger.Error("raft", "detail", fmt.Sprint(v...)) }
func (l raftLogger) Errorf(format string, v ...any) {
	l.logger.Error("raft", "detail", fmt.Sprintf(format, v...))
}
func (l raftLogger) Fatal(v ...any)                 { panic(fmt.Sprint(v...)) }
func (l raftLogger) Fatalf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
func (l raftLogger) Panic(v ...any)                 { panic(fmt.Sprint(v...)) }
func (l raftLogger) Panicf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }

// storeLogger brings the lines of Pebble to slog.
type storeLogger struct {
	logger *slog.Logger
	failed func(error)
}

func (l storeLogger) Infof(format string, v ...any) {
	l.logger.Debug("meta store", "detail", fmt.Sprintf(format, v...))
}

func (l storeLogger) Errorf(format string, v ...any) {
	l.logger.Warn("meta store", "detail", fmt.Sprintf(format, v...))
}

// Fatalf is how Pebble reports a write or sync of its log that failed; it relies on not getting control
// back. Ending the goroutine instead of the process fails the node alone: the node's own goroutine answers
// everyone who waits as it ends, and reads of the image go on.
func (l storeLogger) Fatalf(format string, v ...any) {
	l.failed(fmt.Errorf(format, v...))
	runtime.Goexit()
}
