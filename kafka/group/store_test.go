package group

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"millrace/engine/model"
	"millrace/kafka/group/consumer"
)

func someChanges() []Change {
	topic := model.TopicID{1, 2, 3}
	return []Change{
		{kind: kindPutClassic, Group: "g", Classic: &Classic{ProtocolType: "consumer", Protocol: "range", Generation: 3, Leader: "a", Changed: 1000,
			Members: []ClassicMember{{ID: "a", InstanceID: "i", ClientID: "c", Host: "/h", RebalanceTimeout: 60000, SessionTimeout: 45000,
				Metadata: []byte{1}, Assignment: []byte{2, 3}}}}},
		{kind: kindPutOffset, Group: "g", Topic: topic, TopicName: "t", Partition: 7,
			Offset: Offset{Offset: 42, LeaderEpoch: -1, Metadata: "m", Committed: 2000, Expires: -1}},
		{kind: kindDeleteOffset, Group: "h", Topic: topic, Partition: 1},
		{kind: kindDeleteGroup, Group: "h"},
		{kind: kindDeleteTopic, Topic: model.TopicID{9}},
		{kind: kindPutGeneration, Group: "g", Generation: 4},
		{kind: kindConsumer, Group: "c", Consumer: []consumer.Change{consumer.GroupEpoch{Epoch: 2, MetadataHash: 3},
			consumer.PutMember{Subscription: consumer.Subscription{MemberID: "m", Topics: []string{"t"}}}}},
		{kind: kindConsumer, Group: "d", Consumer: []consumer.Change{consumer.DeleteGroup{}}, Generation: 6,
			Classic: &Classic{ProtocolType: "consumer", Generation: 5}},
	}
}

// The bytes of a command stand in logs for ever.
func TestCommandBytes(t *testing.T) {
	const want = "0108" +
		"01016708636f6e73756d65720572616e6765060161d00f010161016901630" + "22f68c0a90790bf050101020203" +
		"03016701020300000000000000000000000000" + "0174" + "0e" + "5401016da01f01" +
		"040168010203000000000000000000000000" + "00" + "02" +
		"020168" +
		"0509000000000000000000000000000000" +
		"06016708" +
		"070163" + "02" + "0101" + "04" + "0000000000000003" + "0201" + "016d" + "000000000000" + "00" + "01" + "0174" + "00" + "00" +
		"070164" + "01" + "0901" + "01" + "08636f6e73756d6572" + "00" + "0a" + "00" + "00" + "00" + "0c"
	got := hex.EncodeToString(AppendCommand(nil, someChanges()))
	if got != want {
		t.Errorf("command\n%s, want\n%s", got, want)
	}
}

func storeOf(t testing.TB, changes ...Change) *Store {
	t.Helper()
	s := NewStore()
	if _, err := s.Apply(AppendCommand(nil, changes)); err != nil {
		t.Fatal(err)
	}
	return s
}

func snapshotOf(t testing.TB, s *Store) []byte {
	t.Helper()
	b, err := s.Snapshot(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSnapshotRestores(t *testing.T) {
	s := storeOf(t, someChanges()...)
	again := NewStore()
	if err := again.Restore(snapshotOf(t, s)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(snapshotOf(t, s), snapshotOf(t, again)) {
		t.Error("a restored store differs")
	}
	if o, ok := again.Offset("g", model.TopicID{1, 2, 3}, 7); !ok || o.Offset != 42 || o.Metadata != "m" {
		t.Errorf("offset %+v, %v", o, ok)
	}
	if groups, offsets := again.Sizes(); groups != 3 || offsets != 1 {
		t.Errorf("%d groups, %d offsets", groups, offsets)
	}
}

func TestDeletedTopicTakesItsOffsets(t *testing.T) {
	a, b := model.TopicID{1}, model.TopicID{2}
	put := func(group string, topic model.TopicID) Change {
		return Change{kind: kindPutOffset, Group: group, Topic: topic, TopicName: "t"}
	}
	s := storeOf(t, put("g", a), put("g", b), put("h", a), Change{kind: kindDeleteTopic, Topic: a})
	if groups, offsets := s.Sizes(); groups != 1 || offsets != 1 {
		t.Errorf("%d groups, %d offsets are left", groups, offsets)
	}
	if s.has("h") {
		t.Error("a group is left of which there is nothing")
	}
}

// A command applies whole or not at all, whatever bytes come.
func FuzzApply(f *testing.F) {
	f.Add(AppendCommand(nil, someChanges()))
	f.Add([]byte{1, 0})
	f.Add([]byte{2, 1})
	f.Fuzz(func(t *testing.T, command []byte) {
		s := storeOf(t, someChanges()[:2]...)
		before := snapshotOf(t, s)
		_, err := s.Apply(command)
		after := snapshotOf(t, s)
		if err != nil && !errors.Is(err, errHistory) && !bytes.Equal(before, after) {
			t.Fatal("a refused command changed something")
		}
		if again := NewStore(); again.Restore(after) != nil || !bytes.Equal(snapshotOf(t, again), after) {
			t.Fatal("what it made cannot be restored")
		}
	})
}

// Any bytes may stand in a snapshot that was damaged.
func FuzzRestore(f *testing.F) {
	f.Add(snapshotOf(f, storeOf(f, someChanges()...)))
	f.Fuzz(func(t *testing.T, snapshot []byte) {
		s := NewStore()
		if s.Restore(snapshot) != nil {
			return
		}
		again := NewStore()
		if err := again.Restore(snapshotOf(t, s)); err != nil {
			t.Fatal(err)
		}
	})
}

// Snapshots of before the consumer protocol are read.
func TestOlderSnapshot(t *testing.T) {
	s := NewStore()
	if err := s.Restore([]byte("\x01\x01\x01g\x08\x00\x00")); err != nil {
		t.Fatal(err)
	}
	if kept := s.all(); len(kept) != 1 || kept[0].id != "g" || kept[0].generation != 4 || kept[0].consumer != nil {
		t.Errorf("restored %+v", kept)
	}
	if err := s.Restore([]byte{3, 0}); err == nil {
		t.Error("a snapshot of a newer program is taken")
	}
}
