package netio

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// limits counts connections, in all and per address.
type limits struct {
	mu         sync.Mutex
	max        int
	perAddress int
	overrides  map[netip.Addr]int
	open       int
	by         map[netip.Addr]int
}

// descriptorsKept is how many of the process's descriptors are left to files: a quarter to segments and as many to
// everything else, but not more than those can need.
func descriptorsKept(limit uint64) uint64 { return max(64, min(limit/4, 16384)+min(limit/4, 1024)) }

func newLimits(o *Options) (*limits, error) {
	n := &limits{by: make(map[netip.Addr]int)}
	return n, n.set(o.ConnectionsMax, o.ConnectionsMaxPerAddress, o.ConnectionsMaxOverrides)
}

// set changes the limits, which count for connections that come from now on.
func (n *limits) set(most, perAddress int, overrides map[string]int) error {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return fmt.Errorf("read limit of open files: %w", err)
	}
	if kept := descriptorsKept(r.Cur); r.Cur <= kept {
		most = 1
	} else if r.Cur-kept < uint64(most) {
		most = int(r.Cur - kept)
	}
	byAddress := make(map[netip.Addr]int, len(overrides))
	for name, limit := range overrides {
		if a, err := netip.ParseAddr(name); err == nil {
			byAddress[a.Unmap()] = limit
			continue
		}
		addresses, err := net.DefaultResolver.LookupNetIP(context.Background(), "ip", name)
		if err != nil {
			return fmt.Errorf("connections override for %s: %w", name, err)
		}
		for _, a := range addresses {
			byAddress[a.Unmap()] = limit
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.max, n.perAddress, n.overrides = most, perAddress, byAddress
	return nil
}

// enter counts one more connection of a, or returns which limit forbids it.
func (n *limits) enter(a netip.Addr) (full, addressFull bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	limit, ok := n.overrides[a]
	if !ok {
		limit = n.perAddress
	}
	if n.open >= n.max {
		return true, false
	}
	if n.by[a] >= limit {
		return false, true
	}
	n.open++
	n.by[a]++
	return false, false
}

// leave counts one less and returns how many there are.
func (n *limits) leave(a netip.Addr) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open--
	if n.by[a]--; n.by[a] == 0 {
		delete(n.by, a)
	}
	return n.open
}

func (n *limits) most() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.max
}

func (n *limits) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open
}
