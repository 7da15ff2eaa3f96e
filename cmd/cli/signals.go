package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// repeatGrace is how long after the first signal more of them mean the same: a terminal, GNU timeout and
// service managers send one to the process and one to its group.
const repeatGrace = time.Second

// interruptible returns a context that ends with the first SIGINT or SIGTERM. Signals within the second after
// it change nothing; after that they do what they do by default, so that another ends the process at once.
func interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		select {
		case <-signals:
			stop()
		case <-ctx.Done():
			return
		}
		// The work may end before; what is sent then meets a process that ends anyway.
		time.Sleep(repeatGrace)
	}()
	return ctx, stop
}
