package engine

import (
	"bytes"
	"encoding/binary"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"millrace/diskio/disktest"
	"millrace/engine/model"
	"millrace/perf"
)

// fuzzRecords is how many records each append of the fuzzed segment has.
const fuzzRecords = 4

// segmentDisks returns disks with one shard of one segment, as a clean stop, a kill, and the loss of the index store leave
// them, and the bytes of that segment.
func segmentDisks(t testing.TB) (disks []*disktest.Disk, segment []byte) {
	for i := range 3 {
		disk := disktest.New(1)
		s := simStore(t, disk, nil)
		sh := s.shard(1, ShardConfig{})
		for tag := range int64(6) {
			if a := s.append(sh, batchOf(fuzzRecords, 32, tag)); a.Err != nil {
				t.Fatal(a.Err)
			}
		}
		if i == 0 {
			s.Close()
		} else {
			kill(s)
		}
		if i == 2 {
			if err := disk.RemoveAll(filepath.Join("/data", indexDirName)); err != nil {
				t.Fatal(err)
			}
		}
		disks = append(disks, disk)
	}
	f, err := disks[0].OpenReadOnly(segmentPath(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	segment = make([]byte, size)
	if _, err := f.ReadAt(segment, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return disks, segment
}

// resealed gives right checksums to what stands in the places of appends and blocks: that lets the fuzzer past them.
func resealed(b []byte, identity uint32) []byte {
	b = slices.Clone(b)
	seal := func(b []byte) { binary.BigEndian.PutUint32(b, perf.UpdateCRC32C(identity, b[4:])) }
	for pos := segmentHeaderSize; pos+model.HeaderSize <= len(b); {
		seal(b[pos : pos+model.HeaderSize])
		end := pos + int(min(binary.BigEndian.Uint32(b[pos+16:]), uint32(len(b)-pos)))
		for at := pos + model.HeaderSize; at+model.BlockHeaderSize <= end; {
			size := model.BlockHeaderSize + int(binary.BigEndian.Uint32(b[at+4:]))
			if size > end-at {
				break
			}
			seal(b[at : at+size])
			at += size
		}
		pos = max(end, pos+model.HeaderSize)
	}
	return b
}

// edited returns a copy of a segment with up to eight edits of five bytes each: what is done, where (two bytes), to how
// many bytes, and with which value.
func edited(segment, edits []byte) []byte {
	b := slices.Clone(segment)
	for ; len(edits) >= 5 && len(edits) <= 40; edits = edits[5:] {
		from := min(int(binary.BigEndian.Uint16(edits[1:])), len(b))
		to := min(from+int(edits[3]), len(b))
		value := edits[4]
		switch edits[0] % 7 {
		case 0:
			for i := from; i < to; i++ {
				b[i] ^= value
			}
		case 1:
			for i := from; i < to; i++ {
				b[i] = value
			}
		case 2:
			b = b[:from]
		case 3:
			b = slices.Delete(b, from, to)
		case 4:
			b = slices.Insert(b, from, slices.Clone(b[from:to])...)
		case 5: // the rest once more
			b = append(b, b[from:]...)
		case 6:
			if from+4 <= len(b) {
				binary.BigEndian.PutUint32(b[from:], []uint32{0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 20}[value%6])
			}
		}
	}
	return b
}

// FuzzSegment: whatever stands in a segment's file, the store opens within bounded memory; no read panics or comes to no
// end, and what is read under checksums that were not made up are the records that were appended.
func FuzzSegment(f *testing.F) {
	disks, segment := segmentDisks(f)
	for mode := range byte(6) {
		f.Add([]byte{}, mode)
		f.Add([]byte{2, 2, 0, 0, 0}, mode)                 // half of it
		f.Add([]byte{5, 0, segmentHeaderSize, 0, 0}, mode) // all appends twice
		for _, at := range []int{20, segmentHeaderSize + 16, segmentHeaderSize + 33, segmentHeaderSize + model.HeaderSize + 5, len(segment) - 200} {
			f.Add([]byte{0, byte(at >> 8), byte(at), 1, 0x41}, mode)
			f.Add([]byte{6, byte(at >> 8), byte(at), 4, 2}, mode)
		}
	}
	f.Fuzz(func(t *testing.T, edits []byte, mode byte) {
		b := edited(segment, edits)
		disk := disks[mode%3].Crash(disktest.CrashKeep)
		path := segmentPath(1, 1)
		forged := mode/3%2 == 1
		if forged {
			b = resealed(b, testID(1).Identity())
		}
		if err := disk.Remove(path); err != nil {
			t.Fatal(err)
		}
		file, err := disk.Create(path)
		if err == nil {
			_, err = file.WriteAt(b, 0)
			file.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		readSegment(t, disk, forged)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 256<<20 {
			t.Errorf("%d bytes of a segment took %d bytes", len(b), took)
		}
	})
}

// readSegment opens a store and reads what its shard has, one offset after the other.
func readSegment(t *testing.T, disk *disktest.Disk, forged bool) {
	s := simStore(t, disk, nil)
	defer s.Close()
	sh, err := s.EnsureShard(testID(1), ShardSpec{TopicName: "topic-1"})
	if err != nil {
		return
	}
	state := sh.State()
	if !forged && (state.LogStart != 0 || state.LogEnd > 6*fuzzRecords) {
		t.Errorf("offsets %d to %d", state.LogStart, state.LogEnd)
	}
	var span Span
	defer span.Release()
	for offset := state.LogStart; offset < min(state.LogEnd, state.LogStart+100); offset++ {
		err := sh.ReadBlocking(&span, offset, 1<<62, 1<<20)
		if err == nil {
			err = span.Load()
		}
		if err != nil {
			continue
		}
		walkSpan(sh, &span, func(r *model.Record) {
			if forged {
				return
			}
			tag := r.Offset / fuzzRecords
			if want := batchOf(fuzzRecords, 32, tag).values[r.Offset%fuzzRecords]; !bytes.Equal(r.Value, want) {
				t.Errorf("offset %d reads %x", r.Offset, r.Value)
			}
		})
	}
	if batch := batchOf(1, 32, 1); sh.Submit(appendOf(batch), batch) == nil {
		s.sink.wait(t, 1)
	}
}
