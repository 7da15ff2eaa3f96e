package fetchsession

import (
	"errors"
	"math"
	"testing"

	"millrace/engine/model"
)

func TestEpochsKeepBothSidesInStep(t *testing.T) {
	c := NewCache(10)
	s := c.Create(0, true, 1)
	mustFail := func(id, epoch int32, ids bool, want error) {
		t.Helper()
		if got, err := c.Continue(0, id, epoch, ids); !errors.Is(err, want) {
			t.Fatalf("session %d epoch %d: %v %v, want %v", id, epoch, got, err, want)
		}
	}
	mustGo := func(epoch int32) {
		t.Helper()
		got, err := c.Continue(0, s.ID, epoch, true)
		if err != nil || got != s {
			t.Fatalf("epoch %d: %v", epoch, err)
		}
		got.Unlock()
	}
	mustFail(0, 5, true, ErrNotFound)
	mustFail(s.ID, 1, false, ErrTopicID)
	mustFail(s.ID, 2, true, ErrInvalidEpoch)
	mustGo(1)
	mustFail(s.ID, 1, true, ErrInvalidEpoch)
	mustGo(2)
	s.epoch = math.MaxInt32
	mustGo(math.MaxInt32)
	mustGo(1)
	c.Close(s.ID)
	mustFail(s.ID, 2, true, ErrNotFound)
}

func TestSlotsAreBoundedAndIdleOnesGiveWay(t *testing.T) {
	c := NewCache(2)
	a, b := c.Create(0, true, 1), c.Create(1000, true, 1)
	if a == nil || b == nil || c.Create(idleMillis, true, 1) != nil {
		t.Fatal("a third session must wait until one has been idle")
	}
	if c.Create(idleMillis+1, true, 1) == nil || c.Len() != 2 || c.Evicted() != 1 {
		t.Fatalf("the idle session keeps its slot: %d sessions, %d evicted", c.Len(), c.Evicted())
	}
	if _, err := c.Continue(0, a.ID, 1, true); !errors.Is(err, ErrNotFound) {
		t.Fatalf("the evicted session answers %v", err)
	}
}

func TestChangedTellsOfNewsOnly(t *testing.T) {
	p := &Partition{sentHighWatermark: -1, sentLogStart: -1}
	step := func(want bool, code int16, bytes int, hw, start int64) {
		t.Helper()
		if got := p.Changed(code, bytes, hw, start); got != want {
			t.Fatalf("code %d bytes %d hw %d start %d: %v", code, bytes, hw, start, got)
		}
	}
	step(true, 0, 0, 5, 0)
	step(false, 0, 0, 5, 0)
	step(true, 0, 10, 5, 0)
	step(true, 0, 0, 6, 0)
	step(true, 0, 0, 6, 1)
	step(false, 0, 0, 6, 1)
	step(true, 3, 0, 6, 1)
	step(true, 3, 0, 6, 1)
	step(true, 0, 0, 6, 1)
}

func TestServedPartitionsGoToTheEnd(t *testing.T) {
	s := NewCache(1).Create(0, false, 1)
	for i := range int32(4) {
		s.Put([]byte("t"), model.TopicID{}, i, 0, 1, -1, -1)
	}
	s.Put([]byte("t"), model.TopicID{}, 1, 7, 1, -1, -1)
	s.Partitions()[0].Changed(0, 100, 1, 0)
	s.Partitions()[1].Changed(0, 100, 1, 0)
	s.Rotate()
	s.Forget([]byte("t"), model.TopicID{}, 3)
	s.Forget([]byte("u"), model.TopicID{}, 3)
	var got []int32
	for _, p := range s.Partitions() {
		got = append(got, p.Index)
	}
	if len(got) != 3 || got[0] != 2 || got[1] != 0 || got[2] != 1 || s.Partitions()[2].FetchOffset != 7 {
		t.Fatalf("order %v", got)
	}
}
