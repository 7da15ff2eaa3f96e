package consumer

import (
	"encoding/hex"
	"errors"
	"reflect"
	"testing"
	"time"

	"millrace/engine/model"
	"millrace/kafka/group/assignor"
)

// samples are changes with their bytes in the log, which must not change.
func samples() map[string]Change {
	id := model.TopicID{0: 1, 15: 2}
	return map[string]Change{
		"01010e0102030405060708": GroupEpoch{Epoch: 7, MetadataHash: 0x0102030405060708},
		"0201016d016901720163012f012e0775" + "6e69666f726de0d403020161016200": PutMember{Subscription{MemberID: "m", InstanceID: "i", RackID: "r",
			ClientID: "c", ClientHost: "/", Regex: ".", Assignor: "uniform", RebalanceTimeout: 30 * time.Second, Topics: []string{"a", "b"}}},
		"0201016d000000000000d00f0001d0" + "0f010161020102": PutMember{Subscription{MemberID: "m", RebalanceTimeout: time.Second, Topics: []string{},
			Classic: &ClassicMember{SessionTimeout: time.Second, Protocols: []Protocol{{Name: "a", Metadata: []byte{1, 2}}}}}},
		"0301016d":   DeleteMember{MemberID: "m"},
		"04010ed00f": TargetEpoch{Epoch: 7, TimeMillis: 1000},
		"0501016d01010000000000000000000000000000020200" + "06": TargetAssignment{MemberID: "m", Partitions: assignor.Assignment{id: {0, 3}}},
		"0601016d0e0c01010100000000000000000000000000000201060a00": CurrentAssignment{MemberID: "m", Progress: Progress{Epoch: 7, PreviousEpoch: 6,
			State: UnrevokedPartitions, Assigned: Owned{id: {3: 5}}, Pending: Owned{}}},
		"0701022e2a010174": PutRegex{Regex: ".*", Topics: []string{"t"}},
		"0801022e2a":       DeleteRegex{Regex: ".*"},
		"0901":             DeleteGroup{},
	}
}

func TestGoldenBytes(t *testing.T) {
	for golden, c := range samples() {
		bytes := c.Append(nil)
		if got := hex.EncodeToString(bytes); got != golden {
			t.Errorf("%T is %s, was %s", c, got, golden)
		}
		back, n, err := ParseChange(append(bytes, 9, 9))
		if err != nil || n != len(bytes) || !reflect.DeepEqual(back, c) {
			t.Errorf("%T came back as %+v, %d bytes of %d, %v", c, back, n, len(bytes), err)
		}
		for i := range bytes {
			if _, _, err := ParseChange(bytes[:i]); err == nil {
				t.Errorf("%T cut at %d is no error", c, i)
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	f := func(name, bytes string) {
		t.Helper()
		b, err := hex.DecodeString(bytes)
		if err != nil {
			t.Fatal(err)
		}
		if c, _, err := ParseChange(b); err == nil {
			t.Errorf("%s: got %+v", name, c)
		}
	}
	f("no such kind", "0a01")
	f("later version", "0302016d")
	f("huge list", "0701022e2affffffff0f")
	f("partitions out of order", "0501016d0101000000000000000000000000000002020600")
	f("owned out of order", "0601016d0e0c01010100000000000000000000000000000202060a060a00")
	f("epoch above 32 bits", "0101feffffffffff1f0102030405060708")
	f("classic without protocol", "0201016d000000000000d00f0001d00f00")
	f("classic mark", "0201016d000000000000d00f0002")
}

func TestApplyRefusesWhatCannotBe(t *testing.T) {
	id := model.TopicID{1}
	s := &State{}
	f := func(c Change, want error) {
		t.Helper()
		if err := s.Apply(c); !errors.Is(err, want) {
			t.Errorf("%T: %v, want %v", c, err, want)
		}
	}
	f(DeleteMember{MemberID: "a"}, errNoMember)
	f(TargetAssignment{MemberID: "a"}, errNoMember)
	f(CurrentAssignment{MemberID: "a"}, errNoMember)
	f(PutMember{Subscription{MemberID: "a", InstanceID: "i"}}, nil)
	f(PutMember{Subscription{MemberID: "b", InstanceID: "i"}}, errTwoStatics)
	f(PutMember{Subscription{MemberID: "b"}}, nil)
	f(CurrentAssignment{MemberID: "a", Progress: Progress{Assigned: Owned{id: {0: 1}}}}, nil)
	f(CurrentAssignment{MemberID: "b", Progress: Progress{Assigned: Owned{id: {0: 1}}}}, errTwoOwners)
	f(CurrentAssignment{MemberID: "b", Progress: Progress{Pending: Owned{id: {0: 1}}}}, errTwoOwners)
	if s.Owner(id, 0) != "a" {
		t.Error("a refused change changed the owner")
	}
}

// FuzzParseChange checks that bytes from a log cost an error at most, and that what parses is encoded again
// as something that parses to the same.
func FuzzParseChange(f *testing.F) {
	for golden := range samples() {
		b, _ := hex.DecodeString(golden)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		c, n, err := ParseChange(src)
		if err != nil {
			return
		}
		if n > len(src) {
			t.Fatalf("took %d bytes of %d", n, len(src))
		}
		again, _, err := ParseChange(c.Append(nil))
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Fatalf("%+v came back as %+v, %v", c, again, err)
		}
		s := &State{}
		_ = s.Apply(PutMember{Subscription{MemberID: "m"}})
		_ = s.Apply(c)
		for _, c := range s.Changes() {
			if _, _, err := ParseChange(c.Append(nil)); err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
		}
	})
}
