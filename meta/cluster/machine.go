package cluster

import (
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// TopicChange is what became of one topic. Old is nil for a new topic, New for a deleted one.
type TopicChange struct {
	Old, New *Topic
}

// Delta is what one command changed.
type Delta struct {
	Image         *Image // with the change
	Topics        []TopicChange
	Brokers       bool
	BrokerConfigs bool
	GroupConfigs  bool
}

// Machine is the replicated state machine. Image may be called from anywhere; Apply, Snapshot and Restore
// belong to one goroutine.
type Machine struct {
	image atomic.Pointer[Image]

	mu        sync.Mutex // held while a change is published, so that a new listener misses none
	listeners []func(Delta)
}

// NewMachine returns a machine with an empty image.
func NewMachine() *Machine {
	m := &Machine{}
	m.image.Store(emptyImage())
	return m
}

func emptyImage() *Image {
	return &Image{seed: maphash.MakeSeed(), ordered: iradix.New[*Topic]()}
}

// Image returns the newest image. It is never nil and costs one atomic load.
func (m *Machine) Image() *Image { return m.image.Load() }

// OnChange registers f, which is called once before OnChange returns, with everything that exists as
// created, and then for each change on the applying goroutine, after the image is published and before the
// proposer is answered. f must not block for long and must not call OnChange.
func (m *Machine) OnChange(f func(Delta)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.Image()
	f(difference(emptyImage(), i))
	m.listeners = append(m.listeners, f)
}

// Between calls f with the newest image between two changes: listeners are done with all before. f must not block for
// long and must not call OnChange.
func (m *Machine) Between(f func(*Image)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.Image())
}

func (m *Machine) publish(d Delta) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.image.Store(d.Image)
	for _, f := range m.listeners {
		f(d)
	}
}

// Apply applies one encoded command; see meta.Machine. A command of an unknown kind or version is an
// error.
func (m *Machine) Apply(command []byte) ([]byte, error) {
	c, err := ParseCommand(command)
	if err != nil {
		return nil, err
	}
	t := newTransaction(m.Image())
	result := c.apply(t)
	m.publish(t.commit())
	return result, nil
}

// Snapshot appends the whole state to dst.
func (m *Machine) Snapshot(dst []byte) ([]byte, error) { return appendImage(dst, m.Image()), nil }

// Restore replaces the state. Listeners are told the difference.
func (m *Machine) Restore(snapshot []byte) error {
	i, err := parseImage(snapshot)
	if err != nil {
		return fmt.Errorf("restore cluster state: %w", err)
	}
	m.publish(difference(m.Image(), i))
	return nil
}

// difference compares whole images; only a restore needs it.
func difference(from, to *Image) Delta {
	d := Delta{
		Image:         to,
		Brokers:       !slices.Equal(from.brokers, to.brokers),
		BrokerConfigs: len(from.brokerConfigs)+len(to.brokerConfigs) > 0,
		GroupConfigs:  len(from.groupConfigs)+len(to.groupConfigs) > 0,
	}
	from.Topics(func(old *Topic) bool {
		if now := to.TopicByID(old.ID); now != old {
			d.Topics = append(d.Topics, TopicChange{Old: old, New: now})
		}
		return true
	})
	to.Topics(func(now *Topic) bool {
		if from.TopicByID(now.ID) == nil {
			d.Topics = append(d.Topics, TopicChange{New: now})
		}
		return true
	})
	return d
}
