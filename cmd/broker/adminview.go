package broker

import (
	"errors"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"millrace/cmd/admin"
)

// showAdmin fills the admin page.
func (b *Broker) showAdmin() {
	b.admin.Show(admin.Source{
		Config: b.config, Cluster: b.machine, Shards: &b.store, Kafka: b.kafka, Net: b.net.Metrics(), Pool: b.pool, Disks: b.store.disks,
		Healthy: func() error { return errors.Join(b.Impaired(), b.meta.Failed()) }, Version: version(), Started: time.Now(),
	})
}

// version is that of the module or, where the program was built from a tree, the commit.
func version() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return "unknown"
	}
	if info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(len(s.Value), 12)]
		}
	}
	return "development"
}

// disks describes the data directories.
func (d *directories) disks() (list []admin.Disk) {
	for _, at := range d.list {
		disk := admin.Disk{Directory: at.path, TotalBytes: -1, FreeBytes: -1}
		disk.Cordoned, _ = d.Cordoned(at.store)
		if at.fs != nil {
			disk.Backend, disk.Reason = at.fs.Backend()
		}
		var stat unix.Statfs_t
		if unix.Statfs(at.path, &stat) == nil {
			disk.TotalBytes, disk.FreeBytes = int64(stat.Blocks)*stat.Bsize, int64(stat.Bavail)*stat.Bsize
		}
		if err := at.store.Failed(); err != nil {
			disk.Error = err.Error()
		}
		list = append(list, disk)
	}
	return list
}
