package netio

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"runtime"
	"time"

	"millrace/perf"
)

const (
	inflightBytesFloor = 1 << 20 // below it not even a few chunks fit
	loopsMax           = 256
	poolRetainBytes    = 64 << 20
)

// EnsureDefaults fills what is zero.
func (o *Options) EnsureDefaults() {
	setDefault(&o.Loops, max(1, runtime.GOMAXPROCS(0)/2))
	setDefault(&o.FrameBytesMax, 100<<20)
	setDefault(&o.InflightBytesMax, 256<<20)
	setDefault(&o.OutboundBytesMax, 4<<20)
	setDefault(&o.ConnectionsMax, 100_000)
	setDefault(&o.ConnectionsMaxPerAddress, math.MaxInt32)
	setDefault(&o.IdleTimeout, 10*time.Minute)
	setDefault(&o.SlowTimeout, 60*time.Second)
	setDefault(&o.DrainTimeout, 5*time.Second)
	if o.Pool == nil {
		o.Pool = perf.NewPool(poolRetainBytes)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports every fault at once.
func (o *Options) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(o.Handler != nil, "no handler")
	check(len(o.Listeners) > 0, "no listener")
	names := make(map[string]bool)
	for _, n := range o.Listeners {
		check(n.Name != "" && !names[n.Name], "listener name %q is empty or used twice", n.Name)
		names[n.Name] = true
		_, _, err := net.SplitHostPort(n.Address)
		check(err == nil, "listener %s: address %q is not host:port", n.Name, n.Address)
	}
	check(o.Loops > 0 && o.Loops <= loopsMax, "loops is %d, not in 1..%d", o.Loops, loopsMax)
	check(o.FrameBytesMax > 0 && o.FrameBytesMax <= math.MaxInt32, "frame bytes max is %d, not in 1..2^31-1", o.FrameBytesMax)
	check(o.InflightBytesMax >= inflightBytesFloor, "inflight bytes max is %d, below %d", o.InflightBytesMax, inflightBytesFloor)
	check(o.OutboundBytesMax > 0, "outbound bytes max is %d", o.OutboundBytesMax)
	check(o.ConnectionsMax > 0, "connections max is %d", o.ConnectionsMax)
	check(o.ConnectionsMaxPerAddress >= -1, "connections max per address is %d", o.ConnectionsMaxPerAddress)
	for address, limit := range o.ConnectionsMaxOverrides {
		check(address != "" && limit >= 0, "connections override %q is %d", address, limit)
	}
	check(o.IdleTimeout > 0, "idle timeout is %v", o.IdleTimeout)
	check(o.SlowTimeout > 0, "slow timeout is %v", o.SlowTimeout)
	check(o.DrainTimeout > 0, "drain timeout is %v", o.DrainTimeout)
	return errors.Join(faults...)
}
