package engine

import (
	"testing"

	"millrace/engine/model"
)

// plainSink hands back finished appends one by one without allocating.
type plainSink struct{ done chan *Append }

func (s *plainSink) Complete(done *Append, _ []*Shard) {
	for a := done; a != nil; {
		next := a.Next
		s.done <- a
		a = next
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, c := range []struct {
		name     string
		flush    int64
		producer bool
	}{{"plain", 0, false}, {"idempotent", 0, true}, {"flush each", 1, true}} {
		t.Run(c.name, func(t *testing.T) {
			s := openTest(t, testOptions(t, t.TempDir()))
			sink := &plainSink{done: make(chan *Append, 64)}
			s.SetSinks([]Sink{sink})
			sh := s.shard(1, ShardConfig{FlushMessages: c.flush})
			sh.Watch(0)
			b := batchOf(100, 100, 1)
			a := appendOf(b)
			if c.producer {
				a.Header.ProducerID, a.Header.ProducerEpoch = 7, 0
			}
			run := func() {
				if c.producer {
					a.Header.BaseSequence = nextSequence(a.Header.LastSequence, 1)
					a.Header.LastSequence = nextSequence(a.Header.BaseSequence, 99)
				}
				if err := sh.Submit(a, b); err != nil {
					t.Fatal(err)
				}
				if a = <-sink.done; a.Err != nil {
					t.Fatal(a.Err)
				}
			}
			for range 300 {
				run()
			}
			// Index entries, one for each 64 KiB, are what remains: their slice grows now and then.
			if n := testing.AllocsPerRun(300, run); n >= 0.5 {
				t.Errorf("%v allocations an append", n)
			}
		})
	}
}

func TestReadDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	s := openTest(t, testOptions(t, t.TempDir()))
	sh := s.shard(1, ShardConfig{})
	for i := range 200 {
		s.append(sh, batchOf(100, 100, int64(i)))
	}
	var sp Span
	if err := sh.ReadBlocking(&sp, 0, 1<<62, 1); err != nil {
		t.Fatal(err)
	}
	offset := int64(0)
	run := func() {
		if err := sh.Read(&sp, offset, 1<<62, 100_000); err != nil {
			t.Fatal(err)
		}
		if !sp.Resident() {
			t.Fatal("not resident")
		}
		var h model.AppendHeader
		if h.Parse(sp.Bytes(), sh.Identity()) != nil {
			t.Fatal("no append")
		}
		offset = (offset + 777) % sh.State().LogEnd
		offset -= offset % 100
		sp.Release()
	}
	if n := testing.AllocsPerRun(1000, run); n != 0 {
		t.Errorf("%v allocations a read", n)
	}
	if n := testing.AllocsPerRun(1000, func() { sh.State(); s.Shard(sh.ID()) }); n != 0 {
		t.Errorf("%v allocations a look at the state", n)
	}
}
