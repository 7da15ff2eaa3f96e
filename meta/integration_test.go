package meta_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/meta"
	"millrace/meta/cluster"
)

// Cluster state through the group: what proposers were told is the image after a restart, whether it comes
// from the log or from a snapshot.
func TestClusterStateSurvivesRestarts(t *testing.T) {
	for _, snapshotEntries := range []int{1_000_000, 7} {
		fs := vfs.NewMem()
		var want []byte
		for start := range 3 {
			m := cluster.NewMachine()
			n, err := meta.Open(t.Context(), meta.Options{Dir: "meta", FS: fs, NodeID: 1, Sync: true,
				Machines: map[uint8]meta.Machine{1: m}, SnapshotEntries: snapshotEntries})
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := m.Snapshot(nil); start > 0 && !bytes.Equal(got, want) {
				t.Fatalf("snapshot every %d, start %d: the image is not what it was", snapshotEntries, start)
			}
			c := cluster.NewClient(n, 1, m)
			r, err := c.RegisterBroker(t.Context(), cluster.RegisterBroker{ClusterID: n.ClusterID(), NodeID: 1, Time: time.Now()})
			if err != nil || r.Failed() {
				t.Fatal(err, r.Message)
			}
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					topic := cluster.NewTopic{Name: fmt.Sprintf("t%d-%d", start, i), Partitions: 3, ReplicationFactor: 1}
					binary.BigEndian.PutUint64(topic.ID[:], uint64(start*100+i+1))
					results, err := c.CreateTopics(t.Context(), cluster.CreateTopics{Time: time.Now(), Topics: []cluster.NewTopic{topic}})
					if err != nil || results[0].Failed() || c.Image().TopicByID(results[0].Topic.ID) == nil {
						t.Errorf("create: %v %v", err, results)
					}
				})
			}
			wg.Wait()
			if _, err := c.RaiseLeaderEpochs(t.Context(), cluster.RaiseLeaderEpochs{NodeID: 1}); err != nil {
				t.Fatal(err)
			}
			if got := m.Image().TopicCount(); got != (start+1)*20 {
				t.Fatalf("%d topics", got)
			}
			want, _ = m.Snapshot(nil)
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
