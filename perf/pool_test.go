package perf

import "testing"

func TestPoolKeepsBuffersWithinItsBound(t *testing.T) {
	p := NewPool(3000)
	a, b := p.Get(1000), p.Get(1500)
	if cap(a.B) != 1024 || cap(b.B) != 2048 || p.Leased() != 3072 {
		t.Fatalf("capacities %d %d, leased %d", cap(a.B), cap(b.B), p.Leased())
	}
	a.B = append(a.B, make([]byte, 5000)...) // grown beyond the pool's bytes
	a.Release()
	b.Release()
	if p.Leased() != 0 || p.Idle() != 1024 {
		t.Fatalf("leased %d, idle %d", p.Leased(), p.Idle())
	}
	if again := p.Get(600); again != a || len(again.B) != 0 || cap(again.B) != 1024 {
		t.Fatal("a kept buffer does not come back as it was")
	}
}

func TestPoolDoesNotKeepHugeBuffers(t *testing.T) {
	p := NewPool(1 << 40)
	b := p.Get(200 << 20)
	if cap(b.B) != 200<<20 || p.Leased() != 200<<20 {
		t.Fatalf("capacity %d, leased %d", cap(b.B), p.Leased())
	}
	b.Release()
	if p.Leased() != 0 || p.Idle() != 0 {
		t.Fatalf("leased %d, idle %d", p.Leased(), p.Idle())
	}
}

func TestTrimDropsWhatNobodyNeeds(t *testing.T) {
	p := NewPool(1 << 20)
	a, b, c := p.Get(1000), p.Get(1000), p.Get(5000)
	for _, buffer := range []*Buffer{a, b, c} {
		buffer.Release()
	}
	if n := p.Trim(); n != 0 || p.Idle() != 1024+1024+8192 {
		t.Fatalf("%d bytes trimmed of what was in use, %d idle", n, p.Idle())
	}
	p.Get(1000).Release() // one of the two is enough
	if n := p.Trim(); n != 1024+8192 || p.Idle() != 1024 {
		t.Fatalf("%d bytes trimmed, %d idle", n, p.Idle())
	}
	if again := p.Get(1000); again != b {
		t.Fatal("the one that was in use is gone")
	}
}

func TestGetAndReleaseDoNotAllocate(t *testing.T) {
	p := NewPool(1 << 20)
	p.Get(4000).Release()
	if n := testing.AllocsPerRun(100, func() { p.Get(4000).Release() }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
