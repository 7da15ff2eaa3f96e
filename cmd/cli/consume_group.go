package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// groupFlags are the options of consume as a member of a group.
type groupFlags struct {
	id       string
	protocol string
	instance string
}

func (f *groupFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.id, "group", "g", "", "read as a member of this group: begin where it has committed, and commit what was printed")
	flags.StringVar(&f.protocol, "group-protocol", "", "classic (the default), or consumer for that of KIP-848")
	flags.StringVar(&f.instance, "group-instance", "", "be a static member with this instance id")
}

func (f *groupFlags) check(c *consumeFlags, from start) error {
	switch {
	case f.id == "" && f.instance != "":
		return usagef("--group-instance is for reading in a group: give --group")
	case f.id == "" && f.protocol != "":
		return usagef("--group-protocol is for reading in a group: give --group")
	case f.id == "":
		return nil
	case f.protocol != "" && f.protocol != "classic" && f.protocol != "consumer":
		return usagef("--group-protocol %q is neither classic nor consumer", f.protocol)
	case len(c.partitions) > 0:
		return usagef("--partition cannot be chosen in a group, which divides the partitions among its members")
	case from.kind == fromOffset || from.kind == fromBeforeEnd:
		return usagef("--from %s is for reading without a group; in one, --from start, end or time:T says where to begin without a committed offset, and `millrace group reset-offsets` moves those", c.from)
	}
	return nil
}

// options are those of the client of a member.
func (f *groupFlags) options(ctx context.Context, topic string, from start, m *membership) []kgo.Opt {
	reset := kgo.NewOffset().AtStart()
	switch from.kind {
	case fromEnd:
		reset = kgo.NewOffset().AtEnd()
	case fromTime:
		reset = kgo.NewOffset().AfterMilli(from.number)
	}
	opts := []kgo.Opt{kgo.WithContext(ctx), kgo.ConsumerGroup(f.id), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(reset),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.OnPartitionsAssigned(m.assigned), kgo.OnPartitionsRevoked(m.gone), kgo.OnPartitionsLost(m.gone)}
	if f.protocol == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	if f.instance != "" {
		opts = append(opts, kgo.InstanceID(f.instance))
	}
	return opts
}

// membership is the part that a run of consume has in its group. The client calls assigned and gone from elsewhere.
type membership struct {
	group, topic string
	starts, ends map[int32]int64 // where reading begins without a committed offset, and ends: of all partitions

	mu      sync.Mutex
	started bool            // the first assignment has come
	owned   map[int32]int64 // where reading goes on
	err     error

	printed map[int32]*kgo.Record // the last of each partition that is not committed yet; of the reader alone
}

// assigned looks up where the group has committed: only so can be told what is at its end already.
func (m *membership) assigned(ctx context.Context, client *kgo.Client, more map[string][]int32) {
	committed, err := kadm.NewClient(client).FetchOffsetsForTopics(ctx, m.group, m.topic)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.started = true
	if m.err == nil {
		m.err = err
	}
	for _, p := range more[m.topic] {
		at, known := committed.Lookup(m.topic, p)
		if known && at.At >= 0 {
			m.owned[p] = at.At
		} else {
			m.owned[p] = m.starts[p]
		}
	}
}

func (m *membership) gone(_ context.Context, _ *kgo.Client, less map[string][]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range less[m.topic] {
		delete(m.owned, p)
	}
}

// join brings what a reader has left to read into line with what it owns. It returns false before there was an
// assignment.
func (m *membership) join(c *consumption) (started bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(c.ends, func(p int32, _ int64) bool { _, mine := m.owned[p]; return !mine })
	maps.DeleteFunc(m.printed, func(p int32, _ *kgo.Record) bool { _, mine := m.owned[p]; return !mine })
	for p, at := range m.owned {
		if at < 0 {
			continue // seen before
		}
		m.owned[p] = -1
		c.patience.next[p] = at
		if end, known := m.ends[p]; known && at < end {
			c.ends[p] = end
		}
	}
	return m.started, m.err
}

// commit keeps what was printed.
func (m *membership) commit(ctx context.Context, client *kgo.Client) error {
	if len(m.printed) == 0 {
		return nil
	}
	records := slices.Collect(maps.Values(m.printed))
	if err := client.CommitRecords(ctx, records...); err != nil {
		return fmt.Errorf("commit to group %s: %w; what was printed last comes again to the next reader", m.group, err)
	}
	clear(m.printed)
	return nil
}

// consumeInGroup is consume as a member of a group.
func (a *App) consumeInGroup(parent context.Context, topic string, f *consumeFlags, from start, opts []kgo.Opt) error {
	ctx, stop := interruptible(parent)
	defer stop()
	m := &membership{group: f.group.id, topic: topic, owned: map[int32]int64{}, printed: map[int32]*kgo.Record{}}
	lookup, err := f.client.client(ctx)
	if err != nil {
		return err
	}
	m.starts, m.ends, err = f.bounds(ctx, kadm.NewClient(lookup), topic, from)
	lookup.Close()
	if err != nil {
		return err
	}
	// The client outlives an interrupt: what was printed is committed, and the group is left.
	client, err := f.client.client(ctx, append(opts, f.group.options(context.WithoutCancel(ctx), topic, from, m)...)...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	c := a.newConsumption(topic, client, f, map[int32]int64{}, map[int32]int64{})
	c.member = m
	err = a.print(ctx, c, f)
	last, cancel := context.WithTimeout(context.WithoutCancel(parent), max(f.client.timeout, time.Second))
	defer cancel()
	if commitErr := m.commit(last, client); err == nil {
		err = commitErr
	}
	return err
}
