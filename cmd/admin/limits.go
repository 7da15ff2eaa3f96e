package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"millrace/meta/config"
)

// Limits exports what the figures beside them may reach, and how much room there is on disk.
func Limits(settings *config.Broker, disks func() []Disk) prometheus.Collector {
	c := &collector{}
	c.gauge("net_inflight_limit_bytes", "Limit of bytes of requests being received or answered.", function(func() int64 { return settings.QueuedRequestBytesMax }))
	c.gauge("kafka_fetch_sessions_limit", "Limit of incremental fetch sessions.", function(func() int64 { return int64(settings.FetchSessionSlots) }))
	size := c.describe("disk_size_bytes", "Size of the file system of a data directory.", "directory")
	free := c.describe("disk_free_bytes", "What is free of it for the broker.", "directory")
	cordoned := c.describe("disk_cordoned", "1 when a data directory gets no new partitions (cordoned.log.dirs).", "directory")
	c.reads = append(c.reads, func(out chan<- prometheus.Metric) {
		for _, d := range disks() {
			value := 0.0
			if d.Cordoned {
				value = 1
			}
			out <- prometheus.MustNewConstMetric(cordoned, prometheus.GaugeValue, value, d.Directory)
			if d.TotalBytes >= 0 {
				out <- prometheus.MustNewConstMetric(size, prometheus.GaugeValue, float64(d.TotalBytes), d.Directory)
				out <- prometheus.MustNewConstMetric(free, prometheus.GaugeValue, float64(d.FreeBytes), d.Directory)
			}
		}
	})
	return c
}
