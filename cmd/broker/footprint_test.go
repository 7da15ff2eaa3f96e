package broker_test

import (
	"testing"

	"millrace/cmd/broker/brokertest"
)

// TestFreshBrokerIsSmall: a broker on an empty directory takes at most 64 MiB of anonymous memory.
func TestFreshBrokerIsSmall(t *testing.T) {
	if brokertest.Outside() != "" {
		t.Skip("measures a broker of its own")
	}
	b := brokertest.Start(t, nil)
	brokertest.Dial(t, b.Addr).Alive()
	fresh := residentBytes(t, b)
	if fresh > 64<<20 {
		t.Errorf("%d bytes of anonymous memory, more than 64 MiB", fresh)
	}
	t.Logf("%d KiB fresh", fresh>>10)
}
