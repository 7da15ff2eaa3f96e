package broker_test

import (
	"testing"

	"millrace/cmd/broker/brokertest"
)

// TestFreshBrokerIsSmall: a broker on an empty directory takes at most 64 MiB of anonymous memory, and each
// of 1,000 idle connections at most 8 KiB more.
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
	const connections = 1000
	for range connections {
		brokertest.Dial(t, b.Addr).Alive() // each has been used once
	}
	each := (residentBytes(t, b) - fresh) / connections
	if each > 8<<10 {
		t.Errorf("%d bytes of anonymous memory for each idle connection, more than 8 KiB", each)
	}
	t.Logf("%d KiB fresh, %d bytes for each idle connection", fresh>>10, each)
}
