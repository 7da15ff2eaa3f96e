package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/bench/wire"
)

const (
	// groupRounds is how often all members join again.
	groupRounds = 20
	// groupSession is how long a member may be silent, beyond what the commits are measured for: members send no
	// heartbeats here.
	groupSession     = time.Minute
	groupDurationMax = 10 * time.Minute
	coordinatorTries = 300 // settleEvery apart
)

// UnitPerSecond is the unit of an Extra that is the better the higher; all others are the better the lower.
const UnitPerSecond = "1/s"

// runGroup is G1: members form a group, join again together, and commit offsets.
func runGroup(ctx context.Context, r *runner, s Settings) ([]*Figures, error) {
	r.phase = "preparing"
	t, err := r.make(ctx, s.Partitions, nil)
	if err != nil {
		return nil, err
	}
	name := t.name // a name that no other run has
	address, err := r.coordinator(ctx, name)
	if err != nil {
		return nil, err
	}
	r.phase = "forming the group"
	members, err := r.members(ctx, t, address, s)
	defer r.dissolve(ctx, name, members)
	if err != nil {
		return nil, err
	}
	formed, err := r.form(ctx, members)
	if err != nil {
		return nil, err
	}
	r.phase = "joining again"
	again, err := r.rebalances(ctx, members, groupRounds)
	if err != nil {
		return nil, err
	}
	f, err := r.commits(ctx, members, s)
	if err != nil {
		return nil, err
	}
	rate := f.Fetched.RequestsPerSecond
	f.Fetched = nil // nothing was
	f.describe(r.part, s)
	slices.Sort(again)
	f.Extras = []Extra{
		{"group formed in, delay of the broker included", formed.Seconds(), "s"},
		{"last join to last assignment, median", again[len(again)/2].Seconds() * 1000, "ms"},
		{"last join to last assignment, longest", again[len(again)-1].Seconds() * 1000, "ms"},
		{"offset commits", rate, UnitPerSecond},
	}
	return []*Figures{f}, nil
}

// coordinator asks who coordinates a group and returns when that broker says that it does: some make a topic of their own
// first, and load it.
func (r *runner) coordinator(ctx context.Context, group string) (string, error) {
	for try := 1; ; try++ {
		address, err := r.findCoordinator(ctx, group)
		if err == nil {
			err = coordinates(ctx, address, group)
		}
		if err == nil {
			return address, nil
		}
		if try == coordinatorTries || !kerr.IsRetriable(err) {
			return "", fmt.Errorf("find the coordinator of group %s: %w", group, err)
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(settleEvery):
		}
	}
}

func (r *runner) findCoordinator(ctx context.Context, group string) (string, error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = group, []string{group}
	res, err := req.RequestWith(ctx, r.client)
	if err != nil {
		return "", err
	}
	host, port, code := res.Host, res.Port, res.ErrorCode
	if len(res.Coordinators) > 0 {
		host, port, code = res.Coordinators[0].Host, res.Coordinators[0].Port, res.Coordinators[0].ErrorCode
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port))), kerr.ErrorForCode(code)
}

// coordinates returns an error that can be retried where a broker does not coordinate the group yet. One that does says
// that it does not know the member that asks.
func coordinates(ctx context.Context, address, group string) error {
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	conn, err := wire.Dial(ctx, address)
	if err != nil {
		return err
	}
	stranger := newMember(conn, group, "")
	err = stranger.beat()
	for _, early := range []error{kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable} {
		if errors.Is(err, early) {
			return err
		}
	}
	var refused *kerr.Error
	if errors.As(err, &refused) {
		return nil
	}
	return err
}

// members connects so many; it returns those that it connected also where it fails.
func (r *runner) members(ctx context.Context, t *topic, address string, s Settings) ([]*member, error) {
	var all []*member
	for range s.Connections {
		conn, err := wire.Dial(ctx, address)
		if err != nil {
			return all, err
		}
		m := newMember(conn, t.name, t.name)
		m.sessionMs = int32((groupSession + 2*(s.Duration+s.Warmup)).Milliseconds())
		all = append(all, m)
	}
	return all, nil
}

// form lets all members join for the first time and returns how long it took until the last had its assignment. A broker
// that does not wait for more members begins with those that are there, who then join again.
func (r *runner) form(ctx context.Context, members []*member) (time.Duration, error) {
	began := r.clock.now()
	assigned := make([]int64, len(members))
	generations := make([]atomic.Int32, len(members))
	err := r.together(ctx, members, func(i int, m *member) error {
		for {
			err := m.join(0)
			if err == nil {
				err = m.sync()
			}
			if err == nil {
				assigned[i] = r.clock.now()
				generations[i].Store(m.generation)
				err = m.awaitOthers(ctx, generations)
			}
			if !errors.Is(err, kerr.RebalanceInProgress) {
				return err
			}
		}
	})
	return time.Duration(slices.Max(assigned) - began), err
}

// awaitOthers returns nil when all members are in this one's generation. Its error is kerr.RebalanceInProgress when it is
// to join again.
func (m *member) awaitOthers(ctx context.Context, generations []atomic.Int32) error {
	for {
		others := 0
		for i := range generations {
			if generations[i].Load() == m.generation {
				others++
			}
		}
		if others == len(generations) {
			return nil
		}
		if err := m.beat(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollEvery):
		}
	}
}

// together runs f for all members at once and returns when all have ended. Where one fails, the others' connections are
// closed: they would wait for it.
func (r *runner) together(ctx context.Context, members []*member, f func(i int, m *member) error) error {
	errs := make(chan error, len(members))
	var group sync.WaitGroup
	for i, m := range members {
		group.Go(func() {
			if err := f(i, m); err != nil {
				errs <- err // the first is the cause of those that follow
				for _, other := range members {
					other.conn.Close()
				}
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// rebalances lets all members join again and be assigned so often, and returns the times from when the last sent its join
// until the last had its assignment.
func (r *runner) rebalances(ctx context.Context, members []*member, rounds int) ([]time.Duration, error) {
	var all []time.Duration
	for round := range rounds {
		joined, assigned := make([]int64, len(members)), make([]int64, len(members))
		err := r.together(ctx, members, func(i int, m *member) error {
			joined[i] = r.clock.now()
			if err := m.join(round + 1); err != nil {
				return err
			}
			err := m.sync()
			assigned[i] = r.clock.now()
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, m := range members {
			if m.generation != members[0].generation {
				return nil, fmt.Errorf("group %s: members are in generations %d and %d after all joined", m.group, members[0].generation, m.generation)
			}
		}
		all = append(all, time.Duration(slices.Max(assigned)-slices.Max(joined)))
	}
	return all, nil
}

// commits measures how many offsets the members commit, and holds that the last of each partition is kept.
func (r *runner) commits(ctx context.Context, members []*member, s Settings) (*Figures, error) {
	m := r.measurement(s)
	m.fetchName = "commit"
	var committers []*committer
	for i, of := range members {
		c := &committer{member: of, clock: r.clock, gate: m.gate, partition: int32(i)}
		c.latency = newHistogram()
		committers = append(committers, c)
	}
	m.readers = workers(committers)
	f, err := m.run(ctx)
	if err != nil {
		return nil, err
	}
	kept, err := r.adm.FetchOffsets(ctx, members[0].group)
	if err != nil {
		return nil, err
	}
	for _, c := range committers {
		o, ok := kept.Lookup(c.topic, c.partition)
		if !ok || o.Err != nil || o.At != c.offset {
			return nil, fmt.Errorf("group %s has offset %d of partition %d (%v); %d was committed", c.group, o.At, c.partition, o.Err, c.offset)
		}
	}
	return f, nil
}

// dissolve lets the members leave and deletes the group, whatever becomes of ctx. What is left of it the broker forgets
// in time, and its topic is deleted besides.
func (r *runner) dissolve(ctx context.Context, group string, members []*member) {
	var left sync.WaitGroup
	for _, m := range members {
		left.Go(func() {
			if ctx.Err() == nil && m.id != "" {
				m.leave()
			}
			m.conn.Close()
		})
	}
	left.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout)
	defer cancel()
	_, _ = r.adm.DeleteGroups(ctx, group)
}
