package cluster

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"millrace/engine/model"
)

// A history of random commands gives the same image whether it is applied from the beginning, or from a
// snapshot taken anywhere in it; and the image agrees with a plain model.
func TestRandomHistories(t *testing.T) {
	seed := rand.Uint64()
	if s := os.Getenv("MILLRACE_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("repeat with: MILLRACE_SEED=%d go test -run TestRandomHistories ./meta/cluster", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		runHistory(t, rng)
	}
}

func runHistory(t *testing.T, rng *rand.Rand) {
	const length = 150
	whole, late := NewMachine(), NewMachine()
	mirror := map[model.TopicID]*Topic{} // from deltas alone
	whole.OnChange(func(d Delta) {
		for _, c := range d.Topics {
			if c.New == nil {
				delete(mirror, c.Old.ID)
			} else {
				mirror[c.New.ID] = c.New
			}
		}
	})
	cut := rng.IntN(length)
	for i := range length {
		if i == cut {
			snapshot, err := whole.Snapshot(nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := late.Restore(snapshot); err != nil {
				t.Fatal(err)
			}
		}
		before := whole.Image()
		frozen := appendImage(nil, before)
		command := randomCommand(rng, before).AppendCommand(nil)
		result, err := whole.Apply(command)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(frozen, appendImage(nil, before)) {
			t.Fatalf("command %d changed an image that was published", i)
		}
		if i < cut {
			continue
		}
		lateResult, err := late.Apply(command)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(result, lateResult) || !equalImages(whole.Image(), late.Image()) {
			t.Fatalf("command %d after the snapshot at %d: images differ", i, cut)
		}
	}
	checkImage(t, whole.Image(), mirror)
}

// checkImage compares the indexes of an image with each other and with what the deltas told.
func checkImage(t *testing.T, i *Image, mirror map[model.TopicID]*Topic) {
	partitions, last := 0, ""
	i.Topics(func(topic *Topic) bool {
		if topic.Name <= last && last != "" {
			t.Fatalf("%s comes after %s", topic.Name, last)
		}
		last = topic.Name
		partitions += len(topic.Partitions)
		if i.TopicByID(topic.ID) != topic || i.TopicByName([]byte(topic.Name)) != topic || mirror[topic.ID] != topic {
			t.Fatalf("%s is not the same everywhere", topic.Name)
		}
		return true
	})
	if partitions != i.PartitionCount() || len(mirror) != i.TopicCount() {
		t.Fatalf("%d partitions and %d topics, counted %d and %d", partitions, len(mirror), i.PartitionCount(), i.TopicCount())
	}
}

func randomCommand(rng *rand.Rand, i *Image) Command {
	name := func() string {
		return fmt.Sprintf("%c%c%c", 'a'+rng.IntN(4), "._-"[rng.IntN(3)], 'a'+rng.IntN(4))
	}
	configs := func() map[string]string {
		m := map[string]string{}
		for range rng.IntN(3) {
			m[fmt.Sprint("k", rng.IntN(4))] = fmt.Sprint(rng.IntN(3))
		}
		return m
	}
	switch rng.IntN(9) {
	case 0:
		return RegisterBroker{ClusterID: "c", NodeID: rng.Int32N(4), Rack: name(), Time: testTime,
			Endpoints: []Endpoint{{"PLAINTEXT", "h", rng.Int32N(10)}}}
	case 1, 2, 3:
		c := CreateTopics{Time: testTime}
		for range 1 + rng.IntN(4) {
			n := NewTopic{Name: name(), Partitions: rng.Int32N(5), ReplicationFactor: int16(rng.IntN(3)), Configs: configs()}
			n.ID = model.TopicID{byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32())}
			if rng.IntN(4) == 0 {
				n.Partitions, n.ReplicationFactor = -1, -1
				n.Assignments = [][]int32{{rng.Int32N(4)}, {rng.Int32N(4)}}
			}
			c.Topics = append(c.Topics, n)
		}
		return c
	case 4:
		c := DeleteTopics{IDs: []model.TopicID{{1}}}
		i.Topics(func(t *Topic) bool {
			if rng.IntN(6) == 0 {
				c.IDs = append(c.IDs, t.ID)
			}
			return true
		})
		return c
	case 5:
		return CreatePartitions{Topics: []NewPartitions{{Topic: name(), Count: rng.Int32N(9)}, {Topic: name(), Count: rng.Int32N(9)}}}
	case 6:
		r := ResourceConfigs{Kind: TopicResource, Name: name(), Configs: configs()}
		if t := i.TopicByName([]byte(r.Name)); t != nil {
			r.Version = t.ConfigVersion
			r.Configs = maps.Clone(r.Configs)
		}
		broker := rng.Int32N(4) - 1
		return AlterConfigs{Resources: []ResourceConfigs{r, {Kind: BrokerResource, Broker: broker,
			Version: i.BrokerConfigs(broker).Version, Configs: configs()}}}
	case 7:
		return AllocateProducerIDs{Count: rng.Int32N(1000)}
	default:
		return RaiseLeaderEpochs{NodeID: rng.Int32N(4)}
	}
}

// FuzzCommand: any bytes are a command or an error, and what is a command is written back as it was read.
func FuzzCommand(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	m := NewMachine()
	for range 60 {
		command := randomCommand(rng, m.Image()).AppendCommand(nil)
		f.Add(command)
		if _, err := m.Apply(command); err != nil {
			f.Fatal(err)
		}
	}
	snapshot, _ := m.Snapshot(nil)
	f.Fuzz(func(t *testing.T, src []byte) {
		c, err := ParseCommand(src)
		if err != nil {
			return
		}
		again, err := ParseCommand(c.AppendCommand(nil))
		if err != nil || !bytes.Equal(again.AppendCommand(nil), c.AppendCommand(nil)) {
			t.Fatalf("%#v does not read back as itself: %v", c, err)
		}
		m := NewMachine()
		if err := m.Restore(snapshot); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Apply(src); err != nil {
			t.Fatal(err)
		}
		state, _ := m.Snapshot(nil)
		if err := m.Restore(state); err != nil {
			t.Fatalf("the state after %#v cannot be restored: %v", c, err)
		}
	})
}

// FuzzSnapshot: any bytes are a state or an error.
func FuzzSnapshot(f *testing.F) {
	rng := rand.New(rand.NewPCG(2, 2))
	m := NewMachine()
	for range 30 {
		if _, err := m.Apply(randomCommand(rng, m.Image()).AppendCommand(nil)); err != nil {
			f.Fatal(err)
		}
	}
	snapshot, _ := m.Snapshot(nil)
	f.Add(snapshot)
	f.Fuzz(func(t *testing.T, src []byte) {
		m := NewMachine()
		if m.Restore(src) != nil {
			return
		}
		if _, err := m.Apply(RaiseLeaderEpochs{NodeID: 1}.AppendCommand(nil)); err != nil {
			t.Fatal(err)
		}
	})
}
