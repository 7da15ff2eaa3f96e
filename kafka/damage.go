package kafka

import (
	"sync/atomic"
	"time"
)

// damageLogInterval is the least time between two lines about damage that reads met.
const damageLogInterval = time.Second

// damageLog counts reads that met bytes which do not verify or which the disk cannot give, and tells the
// operator of them, at most one each damageLogInterval: readers try again and again. The zero value is ready.
type damageLog struct {
	last       atomic.Int64 // nanoseconds since the epoch; 0: never
	suppressed atomic.Int64
}

// readPlace is what was read. segment is empty where the error names it.
type readPlace struct {
	topic     string
	partition int32
	offset    int64 // -1: not by offset
	segment   string
	position  int64
}

func (f *fetchRequest) place(s *fetchSlot) readPlace {
	return readPlace{topic: s.view.topic.Name, partition: s.partition, offset: s.offset}
}

// readFailed notes that a read of stored bytes failed and returns the code to answer.
func (s *Server) readFailed(p readPlace, err error) int16 {
	code := codeOf(err)
	if code != codeCorruptMessage && code != codeKafkaStorageError {
		return code
	}
	s.metrics.CorruptReads.Add(1)
	now, last := s.o.Now().UnixNano(), s.damage.last.Load()
	// A clock that was set back may not silence it.
	if last != 0 && now >= last && now-last < int64(damageLogInterval) || !s.damage.last.CompareAndSwap(last, now) {
		s.damage.suppressed.Add(1)
		return code
	}
	fields := []any{"topic", p.topic, "partition", p.partition}
	if p.offset >= 0 {
		fields = append(fields, "offset", p.offset)
	}
	if p.segment != "" {
		fields = append(fields, "segment", p.segment, "position", p.position)
	}
	fields = append(fields, "err", err, "suppressed", s.damage.suppressed.Swap(0))
	s.o.Logger.Error("stored records cannot be read: damaged or unreadable bytes", fields...)
	return code
}
