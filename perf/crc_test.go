package perf

import (
	"math/rand/v2"
	"testing"
)

func TestFarCRC32C(t *testing.T) {
	b := make([]byte, 3*farPiece+100)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b)
	for _, n := range []int{0, 1, 63, 64, 65, farPiece - 1, farPiece, farPiece + 1, len(b)} {
		if far, near := UpdateFarCRC32C(7, b[:n]), UpdateCRC32C(7, b[:n]); far != near {
			t.Errorf("%d bytes: %08x, not %08x", n, far, near)
		}
	}
}

// BenchmarkCRC32C goes over blocks of 64 KiB: the same one again and again, or all of a memory larger than the caches.
func BenchmarkCRC32C(b *testing.B) {
	const block = 64 << 10
	memory := make([]byte, 512<<20)
	for i := range memory {
		memory[i] = byte(i * 7)
	}
	for _, c := range []struct {
		name   string
		size   int
		update func(crc uint32, b []byte) uint32
	}{{"near/plain", block, UpdateCRC32C}, {"near/far", block, UpdateFarCRC32C}, {"far/plain", len(memory), UpdateCRC32C}, {"far/far", len(memory), UpdateFarCRC32C}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(block)
			sum, at := uint32(0), 0
			for range b.N {
				sum = c.update(sum, memory[at:at+block])
				at = (at + block) % c.size
			}
			_ = sum
		})
	}
}
