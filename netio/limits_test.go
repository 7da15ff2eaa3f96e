package netio

import "testing"

func TestDescriptorsKept(t *testing.T) {
	for limit, want := range map[uint64]uint64{64: 64, 256: 128, 1024: 512, 20_000: 6024, 1 << 20: 17408} {
		if got := descriptorsKept(limit); got != want {
			t.Errorf("of %d descriptors %d are kept from sockets, not %d", limit, got, want)
		}
	}
}
