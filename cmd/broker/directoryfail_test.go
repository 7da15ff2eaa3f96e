package broker

import (
	"errors"
	"log/slog"
	"testing"

	"millrace/diskio/disktest"
	"millrace/engine"
	"millrace/engine/model"
)

// TestDirectoryFailsWhileServing: a failed sync stops the writes of one directory alone, and new shards go elsewhere.
func TestDirectoryFailsWhileServing(t *testing.T) {
	disks := []*disktest.Disk{disktest.New(1), disktest.New(2)}
	d := &directories{list: []*directory{{path: "/first"}, {path: "/second"}}}
	for i, at := range d.list {
		at.fs = disks[i]
		var err error
		at.store, err = engine.Open(t.Context(), engine.Options{Dir: at.path, FS: disks[i], IndexFS: disks[i].PebbleFS(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
	}
	defer d.closeStores()
	ensure := func(partition int32) *engine.Shard {
		sh, err := d.ensure(model.ShardID{Topic: model.TopicID{1}, Partition: partition}, engine.ShardSpec{TopicName: "a", Config: engine.ShardConfig{SegmentBytes: 1 << 20}}, false)
		if err != nil {
			t.Fatal(err)
		}
		return sh
	}
	for p := range int32(6) {
		ensure(p)
	}
	if n := d.list[0].store.Unwritten(); n != 3 {
		t.Errorf("%d of 6 shards are in the first of two directories with the same room", n)
	}
	disks[1].Inject(disktest.Fault{Kind: disktest.KindSync, Times: -1})
	if err := d.list[1].store.SyncRecords(); err == nil {
		t.Fatal("a failed sync is not told")
	}
	errs, all := d.failed()
	if len(errs) != 1 || all || !errors.Is(errs[0], engine.ErrStorage) {
		t.Errorf("failed: %v, all %v", errs, all)
	}
	d.list[1].looked = d.list[1].looked.Add(-roomInterval)
	d.list[0].looked = d.list[0].looked.Add(-roomInterval)
	for p := range int32(6) {
		if sh := ensure(10 + p); sh.Store() != d.list[0].store {
			t.Errorf("partition %d is in the failed directory", 10+p)
		}
	}
}
