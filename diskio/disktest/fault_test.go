package disktest

import (
	"bytes"
	"syscall"
	"testing"

	"millrace/diskio"
)

func TestFaults(t *testing.T) {
	d := New(1)
	f := create(t, d, "/", "file")
	g := create(t, d, "/", "other")
	d.Inject(Fault{Kind: KindWrite, Path: "file", After: 1, WrittenBytes: 3, Err: syscall.ENOSPC})
	b := [][]byte{[]byte("he"), []byte("llo")}
	ops := []diskio.WriteOp{{File: f, Bufs: b}, {File: f, Pos: 5, Bufs: b}, {File: g, Bufs: b}, {File: f, Pos: 10, Bufs: b}}
	d.Write(ops)
	noError(t, ops[0].Err)
	wantError(t, ops[1].Err, syscall.ENOSPC)
	noError(t, ops[2].Err)
	wantError(t, ops[3].Err, syscall.ENOSPC) // not tried
	wantContent(t, f, []byte("hellohel"))
	_, err := f.WriteAt([]byte("lo"), 8)
	noError(t, err)
	if n := d.Count(KindWrite); n != 4 {
		t.Errorf("%d writes counted", n)
	}

	d.Inject(Fault{Kind: KindCreate, Times: -1})
	for range 3 {
		_, err = d.Create("new")
		wantError(t, err, syscall.EIO)
	}
	d.ClearFaults()
	create(t, d, "/", "new")
	d.Inject(Fault{Kind: KindSyncDir})
	wantError(t, d.SyncDir("/"), syscall.EIO)
	noError(t, d.SyncDir("/"))
	d.Inject(Fault{Kind: KindPreallocate, Err: syscall.EOPNOTSUPP})
	wantError(t, f.Preallocate(0, 100), syscall.EOPNOTSUPP)
	d.Inject(Fault{Kind: KindRead})
	_, err = f.ReadAt(make([]byte, 1), 0)
	wantError(t, err, syscall.EIO)
}

// K11: what a failed sync was to write is not durable, whatever later syncs say.
func TestK11FailedSyncLosesItsBytes(t *testing.T) {
	d := New(1)
	f := create(t, d, "/", "f")
	noError(t, d.SyncDir("/"))
	_, err := f.WriteAt([]byte("one"), 0)
	noError(t, err)
	noError(t, f.Sync())
	_, err = f.WriteAt([]byte("two"), 3)
	noError(t, err)
	d.Inject(Fault{Kind: KindSync})
	wantError(t, f.Sync(), syscall.EIO)
	noError(t, f.Sync())
	_, err = f.WriteAt([]byte("three"), 6)
	noError(t, err)
	noError(t, f.Sync())
	if got := read(t, d.Crash(CrashDrop), "f"); got != "one\x00\x00\x00three" {
		t.Errorf("found %q", got)
	}
}

func TestCapacity(t *testing.T) {
	d := New(1)
	d.SetCapacity(10_000)
	f, g := create(t, d, "/", "f"), create(t, d, "/", "g")
	noError(t, f.Preallocate(0, 6000))
	wantError(t, g.Preallocate(0, 6000), syscall.ENOSPC)
	ops := []diskio.WriteOp{{File: g, Bufs: [][]byte{make([]byte, 5000)}}}
	d.Write(ops)
	wantError(t, ops[0].Err, syscall.ENOSPC)
	wantContent(t, g, make([]byte, 4000))
	ops[0] = diskio.WriteOp{File: f, Bufs: [][]byte{make([]byte, 6000)}} // has its blocks
	d.Write(ops)
	noError(t, ops[0].Err)
	free, err := d.Free("/")
	noError(t, err)
	if free != 0 {
		t.Errorf("%d bytes are free", free)
	}
	noError(t, d.Remove("g"))
	if d.Used() != 10_000 {
		t.Errorf("%d bytes in use while the file is open", d.Used())
	}
	noError(t, g.Close())
	if d.Used() != 6000 {
		t.Errorf("%d bytes in use", d.Used())
	}
}

func TestFlipBit(t *testing.T) {
	d := New(1)
	f := create(t, d, "/", "f")
	_, err := f.WriteAt([]byte("abc"), 0)
	noError(t, err)
	m, err := f.Map(100)
	noError(t, err)
	noError(t, d.FlipBit("f", 1, 0, true))
	if got := read(t, d, "f"); got != "acc" {
		t.Errorf("read %q", got)
	}
	wantContent(t, f, []byte("abc"))
	noError(t, d.FlipBit("f", 1, 0, false))
	for range 2 {
		if got := string(m.Slice(0, 3)); got != "acc" {
			t.Errorf("mapped %q", got)
		}
	}
	if got := read(t, d.Crash(CrashKeep), "f"); got != "acc" {
		t.Errorf("read %q after a crash", got)
	}
	_, err = f.WriteAt([]byte("b"), 1)
	noError(t, err)
	wantContent(t, f, []byte("abc"))
	noError(t, m.Unmap())
}

func TestMappedFaultsAndColdPages(t *testing.T) {
	for _, size := range []int64{1 << 20, 64 << 20} { // a Go slice, and memory of the system
		d := New(1)
		f := create(t, d, "/", "f")
		m, err := f.Map(size)
		noError(t, err)
		content := bytes.Repeat([]byte("x"), 10_000)
		_, err = f.WriteAt(content, 0)
		noError(t, err)
		d.Inject(Fault{Kind: KindTouch})
		wantError(t, diskio.Guard(&reader{bytes: m.Slice(0, 10_000)}), diskio.ErrFault)
		r := reader{bytes: m.Slice(0, 10_000)}
		noError(t, diskio.Guard(&r))
		if r.sum != 10_000*'x' {
			t.Error("mapped other bytes than were written")
		}
		noError(t, d.Evict("f"))
		if m.Resident(0, 1) {
			t.Error("resident after eviction")
		}
		d.Inject(Fault{Kind: KindRead})
		wantError(t, m.Load(0, 4096), diskio.ErrFault)
		noError(t, m.Load(0, 4096))
		if !m.Resident(0, 4096) || m.Resident(0, 4097) {
			t.Error("other pages are resident than were loaded")
		}
		noError(t, m.Unmap())
		noError(t, f.Close())
	}
}

func TestExtents(t *testing.T) {
	var s extents
	f := func(want ...extent) {
		t.Helper()
		if len(s) != len(want) {
			t.Fatalf("%v, want %v", s, want)
		}
		for i := range want {
			if s[i] != want[i] {
				t.Fatalf("%v, want %v", s, want)
			}
		}
	}
	s.add(10, 20)
	s.add(30, 40)
	s.add(5, 5)
	f(extent{10, 20}, extent{30, 40})
	s.add(20, 25)
	f(extent{10, 25}, extent{30, 40})
	s.add(0, 5)
	s.add(24, 30)
	f(extent{0, 5}, extent{10, 40})
	s.remove(12, 14)
	f(extent{0, 5}, extent{10, 12}, extent{14, 40})
	s.cut(20)
	f(extent{0, 5}, extent{10, 12}, extent{14, 20})
	if s.overlaps(5, 10) || !s.overlaps(0, 100) || !s.overlaps(19, 20) || s.overlaps(20, 30) {
		t.Error("overlaps differ")
	}
	s.add(1, 50)
	f(extent{0, 50})
}
