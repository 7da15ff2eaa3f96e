package cluster

import (
	"encoding/binary"
	"fmt"
	"testing"

	"millrace/engine/model"
)

func bigMachine(tb testing.TB, topics int) *Machine {
	m, c := newLocal()
	mustRegister(tb, c, 1)
	var list []NewTopic
	for i := range topics {
		n := NewTopic{Name: fmt.Sprintf("orders.region-%d", i), Partitions: 1, ReplicationFactor: 1}
		binary.BigEndian.PutUint64(n.ID[:], uint64(i+1)*0x9e3779b97f4a7c15)
		list = append(list, n)
	}
	mustCreate(tb, c, list...)
	return m
}

// Creating one topic among 10,000 costs the depth of the trees.
func BenchmarkCreateAmong10000(b *testing.B) {
	m := bigMachine(b, 10_000)
	image := m.Image()
	command := CreateTopics{Topics: []NewTopic{{Name: "orders.region-new", ID: model.TopicID{1, 2, 3}, Partitions: 1, ReplicationFactor: 1}}}.AppendCommand(nil)
	for b.Loop() {
		m.image.Store(image)
		if _, err := m.Apply(command); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTopicByName(b *testing.B) {
	image := bigMachine(b, 10_000).Image()
	var names [1024][]byte
	for i := range names {
		names[i] = fmt.Appendf(nil, "orders.region-%d", i*9)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if image.TopicByName(names[i&1023]) == nil {
			b.Fatal("missing")
		}
		i++
	}
}

func BenchmarkTopicByID(b *testing.B) {
	image := bigMachine(b, 10_000).Image()
	var ids []model.TopicID
	image.Topics(func(t *Topic) bool {
		ids = append(ids, t.ID)
		return len(ids) < 1024
	})
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if image.TopicByID(ids[i&1023]) == nil {
			b.Fatal("missing")
		}
		i++
	}
}

func BenchmarkSnapshotOf10000(b *testing.B) {
	m := bigMachine(b, 10_000)
	var snapshot []byte
	for b.Loop() {
		snapshot, _ = m.Snapshot(snapshot[:0])
	}
	b.ReportMetric(float64(len(snapshot)), "B")
}

func BenchmarkRaiseLeaderEpochsOf10000(b *testing.B) {
	m := bigMachine(b, 10_000)
	command := RaiseLeaderEpochs{NodeID: 1}.AppendCommand(nil)
	for b.Loop() {
		if _, err := m.Apply(command); err != nil {
			b.Fatal(err)
		}
	}
}

func TestLookUpsDoNotAllocate(t *testing.T) {
	image := bigMachine(t, 1000).Image()
	name, missing := []byte("orders.region-500"), []byte("nothing")
	id := image.TopicByName(name).ID
	allocations := testing.AllocsPerRun(100, func() {
		if image.TopicByName(name) == nil || image.TopicByName(missing) != nil || image.TopicByID(id) == nil {
			t.Fatal("wrong answer")
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}
