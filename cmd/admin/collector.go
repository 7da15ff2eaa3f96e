package admin

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"millrace/engine"
	"millrace/kafka"
	"millrace/kafka/group"
	"millrace/meta"
	"millrace/meta/cluster"
	"millrace/netio"
	"millrace/perf"
)

// collector reads plain numbers when it is asked.
type collector struct {
	labels       prometheus.Labels // of every series
	descriptions []*prometheus.Desc
	reads        []func(emit chan<- prometheus.Metric)
}

// Describe is called by Prometheus.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descriptions {
		out <- d
	}
}

// Collect is called by Prometheus.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	for _, read := range c.reads {
		read(out)
	}
}

// number is what a counter or gauge is read from; *atomic.Int64 is one.
type number interface{ Load() int64 }

// function makes a number of a function.
type function func() int64

// Load calls the function.
func (f function) Load() int64 { return f() }

func (c *collector) describe(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc("millrace_"+name, help, labels, c.labels)
	c.descriptions = append(c.descriptions, d)
	return d
}

// counter exports a number that only grows; names end in _total.
func (c *collector) counter(name, help string, n number) {
	c.value(name, help, prometheus.CounterValue, 1, n)
}

func (c *collector) gauge(name, help string, n number) {
	c.value(name, help, prometheus.GaugeValue, 1, n)
}

func (c *collector) value(name, help string, kind prometheus.ValueType, unit float64, n number) {
	d := c.describe(name, help)
	c.reads = append(c.reads, func(out chan<- prometheus.Metric) {
		out <- prometheus.MustNewConstMetric(d, kind, float64(n.Load())*unit)
	})
}

// histogram exports a histogram of powers of two, each value times unit.
func (c *collector) histogram(name, help string, unit float64, h *engine.Histogram) {
	d := c.describe(name, help)
	c.reads = append(c.reads, func(out chan<- prometheus.Metric) {
		buckets := map[float64]uint64{}
		var count uint64
		for i := range h.Buckets {
			count += uint64(h.Buckets[i].Load())
			// Bucket i counts whole values below 1<<i, so its bound is one less.
			buckets[float64(uint64(1)<<i-1)*unit] = count
		}
		out <- prometheus.MustNewConstHistogram(d, count, float64(h.Sum.Load())*unit, buckets)
	})
}

const microsecond = 1e-6

// Pool exports the buffer pool.
func Pool(p *perf.Pool) prometheus.Collector {
	c := &collector{}
	c.gauge("pool_leased_bytes", "Bytes of pooled buffers in use.", function(p.Leased))
	c.gauge("pool_idle_bytes", "Bytes of pooled buffers kept for reuse.", function(p.Idle))
	return c
}

// Net exports connections, frames and back-pressure.
func Net(m *netio.Metrics) prometheus.Collector {
	c := &collector{}
	c.gauge("net_connections", "Open connections.", &m.ConnectionsOpen)
	c.gauge("net_connections_limit", "Limit of connections in force.", &m.ConnectionsMax)
	c.counter("net_connections_total", "Connections accepted.", &m.ConnectionsTotal)
	c.counter("net_connections_refused_total", "Connections closed at once: too many in all.", &m.RefusedTotal)
	c.counter("net_connections_refused_address_total", "Connections closed at once: too many from their address.", &m.RefusedPerAddress)
	c.counter("net_accept_pauses_total", "Times accepting paused for want of descriptors or memory.", &m.AcceptPauses)
	c.counter("net_accept_holds_total", "Times accepting waited for max.connection.creation.rate.", &m.AcceptHolds)
	c.gauge("net_connection_rate_limit", "Limit of new connections a second, 0 for none.", &m.ConnectionRateMax)
	c.counter("net_received_bytes_total", "Bytes received.", &m.BytesIn)
	c.counter("net_sent_bytes_total", "Bytes sent.", &m.BytesOut)
	c.counter("net_frames_total", "Request frames received.", &m.FramesIn)
	c.gauge("net_inflight_bytes", "Bytes of requests being received or answered.", &m.InflightBytes)
	c.gauge("net_outbound_bytes", "Bytes of replies that wait for their turn or their peer.", &m.OutboundBytes)
	c.gauge("net_connections_waiting", "Connections that wait for bytes in flight.", &m.ConnectionsWaiting)
	c.counter("net_pauses_inflight_total", "Times a connection waited for bytes in flight.", &m.PausesInflight)
	c.counter("net_pauses_outbound_total", "Times a connection was not read for its unsent replies.", &m.PausesOutbound)
	c.counter("net_pauses_exchanges_total", "Times a connection was not read for its open requests.", &m.PausesExchanges)
	closed := c.describe("net_connections_closed_total", "Connections closed, by cause.", "cause")
	c.reads = append(c.reads, func(out chan<- prometheus.Metric) {
		for _, cause := range netio.Causes() {
			out <- prometheus.MustNewConstMetric(closed, prometheus.CounterValue, float64(m.Closed(cause)), cause.String())
		}
	})
	return c
}

// Engine exports appends, the disk and recovery of one data directory. Where that is one of several, each series
// carries its name.
func Engine(m *engine.Metrics, failed func() error, directory string) prometheus.Collector {
	c := &collector{}
	if directory != "" {
		c.labels = prometheus.Labels{"directory": directory}
	}
	c.gauge("engine_failed", "1 when the data directory takes no more writes or could not be opened.", function(func() int64 {
		if failed() != nil {
			return 1
		}
		return 0
	}))
	c.counter("engine_appends_total", "Appends published.", &m.Appends)
	c.counter("engine_records_total", "Records published.", &m.Records)
	c.counter("engine_append_bytes_total", "Bytes of appends published, as stored.", &m.AppendBytes)
	c.counter("engine_append_errors_total", "Appends that failed after they were gathered.", &m.AppendErrors)
	c.counter("engine_duplicate_appends_total", "Appends that a producer had sent before.", &m.DuplicateAppends)
	c.counter("engine_backpressure_total", "Appends refused because too much waited to be written.", &m.Backpressured)
	c.gauge("engine_gathered_bytes", "Bytes that wait to be written or synced.", &m.GatheredBytes)
	c.counter("engine_write_batches_total", "Rounds of the writers.", &m.WriteBatches)
	c.counter("engine_writes_total", "Segment writes.", &m.Writes)
	c.counter("engine_write_errors_total", "Segment writes that failed.", &m.WriteErrors)
	c.histogram("engine_write_batch_bytes", "Bytes of one round.", 1, &m.WriteBatchBytes)
	c.histogram("engine_write_seconds", "Time of one round's submission.", microsecond, &m.WriteDuration)
	c.counter("engine_syncs_total", "Files made durable.", &m.Syncs)
	c.counter("engine_sync_errors_total", "Syncs that failed; the data directory then takes no more writes.", &m.SyncErrors)
	c.counter("engine_early_syncs_total", "Batches of syncs to make room for open segment files.", &m.EarlySyncs)
	c.histogram("engine_sync_seconds", "Time of one batch of syncs.", microsecond, &m.SyncDuration)
	c.gauge("engine_space_low", "1 while appends are refused for want of space.", &m.SpaceLow)
	c.gauge("engine_segments_open", "Segment files open.", &m.SegmentsOpen)
	c.counter("engine_segment_evictions_total", "Segment files closed to keep the bound.", &m.SegmentEvictions)
	c.gauge("engine_mappings", "Mappings of segments.", &m.Mappings)
	c.counter("engine_segments_rolled_total", "Segments sealed.", &m.SegmentsRolled)
	c.counter("engine_segments_deleted_total", "Segments deleted.", &m.SegmentsDeleted)
	c.counter("engine_index_entries_total", "Entries written to the index.", &m.IndexEntries)
	c.counter("engine_index_flushes_total", "Batches written to the index.", &m.IndexFlushes)
	c.counter("engine_index_rebuilds_total", "Segments whose index was made again.", &m.IndexRebuilds)
	c.counter("engine_checkpoints_total", "Checkpoints of shards.", &m.Checkpoints)
	c.counter("engine_retention_held_total", "Looks that deleted nothing by age because the clock jumped.", &m.RetentionHeld)
	c.counter("engine_producers_evicted_total", "Producers forgotten because there were too many.", &m.ProducersEvicted)
	c.counter("engine_reads_not_resident_total", "Reads that had to wait for the disk.", &m.ReadsNotResident)
	c.value("engine_recovery_seconds", "Time of recovery at the start.", prometheus.GaugeValue, 1e-9, &m.RecoveryNanos)
	c.gauge("engine_recovered_bytes", "Bytes scanned by recovery at the start.", &m.RecoveredBytes)
	c.counter("engine_cleanings_total", "Compactions of shards that were finished.", &m.Cleanings)
	c.counter("engine_clean_errors_total", "Compactions that failed.", &m.CleanErrors)
	c.value("engine_clean_seconds_total", "Time spent in compactions.", prometheus.CounterValue, 1e-9, &m.CleanNanos)
	c.counter("engine_clean_read_bytes_total", "Bytes read by compaction.", &m.CleanReadBytes)
	c.counter("engine_clean_written_bytes_total", "Bytes written by compaction.", &m.CleanWrittenBytes)
	c.counter("engine_cleaned_records_total", "Records removed by compaction.", &m.CleanedRecords)
	c.counter("engine_clean_keys_full_total", "Compactions cut short because their keys filled log.cleaner.dedupe.buffer.size.", &m.CleanMapFull)
	c.gauge("engine_clean_keys_bytes", "Memory for the keys of the compaction under way.", &m.CleanMapBytes)
	c.gauge("engine_uncleanable_shards", "Shards that are not compacted any more because they are damaged.", &m.UncleanableShards)
	c.value("engine_dirtiest_ratio", "Largest part of a shard that was written since its last compaction.", prometheus.GaugeValue, 1e-3, &m.DirtiestPermille)
	c.gauge("engine_quarantined_shards", "Shards that are not served because their files are damaged.", &m.QuarantinedShards)
	return c
}

// Meta exports the Raft group and the size of the cluster state.
func Meta(n *meta.Node, machine *cluster.Machine) prometheus.Collector {
	m, c := n.Metrics(), &collector{}
	c.counter("meta_proposals_total", "Proposals taken.", &m.Proposals)
	c.counter("meta_proposal_bytes_total", "Bytes of proposals.", &m.ProposalsBytes)
	c.gauge("meta_proposals_waiting", "Proposals without an answer.", &m.Waiting)
	c.gauge("meta_applied_index", "Index of the last applied entry.", &m.Applied)
	c.counter("meta_log_writes_total", "Writes of the log.", &m.Writes)
	c.counter("meta_snapshots_total", "Snapshots taken since the start.", &m.Snapshots)
	c.gauge("meta_snapshot_bytes", "Bytes of the last snapshot.", &m.SnapshotBytes)
	c.gauge("meta_log_entries", "Entries since the last snapshot.", &m.LogEntries)
	c.gauge("meta_log_bytes", "Bytes since the last snapshot.", &m.LogBytes)
	c.gauge("meta_leader", "1 while this node leads the group.", function(func() int64 {
		if n.IsLeader() {
			return 1
		}
		return 0
	}))
	c.gauge("cluster_topics", "Topics.", function(func() int64 { return int64(machine.Image().TopicCount()) }))
	c.gauge("cluster_partitions", "Partitions.", function(func() int64 { return int64(machine.Image().PartitionCount()) }))
	c.gauge("cluster_brokers", "Registered brokers.", function(func() int64 { return int64(len(machine.Image().Brokers())) }))
	return c
}

// Kafka exports requests by API.
func Kafka(s *kafka.Server) prometheus.Collector {
	m, c := s.Metrics(), &collector{}
	c.counter("kafka_refused_total", "Requests that cost their connection.", &m.Refused)
	c.counter("kafka_produced_bytes_total", "Bytes of batches accepted, as on the wire.", &m.ProducedBytes)
	c.counter("kafka_produces_left_total", "Produces that were too much work for an event loop.", &m.ProducesLeft)
	c.counter("kafka_fetched_bytes_total", "Bytes of batches sent.", &m.FetchedBytes)
	c.counter("kafka_fetched_records_total", "Records sent.", &m.FetchedRecords)
	c.counter("kafka_fetches_blocking_total", "Fetches that had to leave the event loop.", &m.FetchesBlocking)
	c.counter("kafka_fetches_waited_total", "Fetches that became long polls.", &m.FetchesWaited)
	c.counter("kafka_slow_requests_total", "Requests that took longer here than millrace.log.slow.request.ms, the waits of long polls apart.", &m.SlowRequests)
	c.counter("kafka_slow_clients_total", "Other requests whose clients took longer to send them and to take the answer.", &m.SlowClients)
	c.counter("kafka_corrupt_reads_total", "Reads that met stored bytes which are damaged or cannot be read.", &m.CorruptReads)
	c.gauge("kafka_fetch_sessions", "Incremental fetch sessions.", function(func() int64 { return int64(s.SessionCount()) }))
	requests := c.describe("kafka_request_seconds", "Time from the last byte of a request to its answer.", "api")
	c.reads = append(c.reads, func(out chan<- prometheus.Metric) {
		for key := range m.Requests {
			name, ok := s.APIName(key)
			if !ok {
				continue
			}
			r := &m.Requests[key]
			buckets := map[float64]uint64{}
			var count uint64
			for i := range r.Below {
				count += uint64(r.Below[i].Load())
				if i+1 < len(r.Below) { // the last takes any time
					buckets[kafka.LatencyBound(i).Seconds()] = count
				}
			}
			out <- prometheus.MustNewConstHistogram(requests, count, float64(r.Micros.Load())*microsecond, buckets, name)
		}
	})
	return c
}

// lagsMax bounds the series of lag: one for each group and partition. What is beyond is counted.
const lagsMax = 20_000

// Groups exports the coordinator of groups.
func Groups(s *kafka.Server) prometheus.Collector {
	c := &collector{}
	counters := []struct {
		name, help string
		read       func(*group.Metrics) int64
	}{
		{"group_rebalances_total", "Rebalances begun.", func(m *group.Metrics) int64 { return m.Rebalances }},
		{"group_commits_total", "Offsets committed.", func(m *group.Metrics) int64 { return m.Commits }},
		{"group_offsets_expired_total", "Offsets forgotten by age.", func(m *group.Metrics) int64 { return m.Expired }},
		{"group_members_expired_total", "Members that were not heard of in time.", func(m *group.Metrics) int64 { return m.MembersExpired }},
		{"group_refused_total", "Requests refused for a limit on groups and members.", func(m *group.Metrics) int64 { return m.Refused }},
	}
	descriptions := make([]*prometheus.Desc, len(counters))
	for i, counter := range counters {
		descriptions[i] = c.describe(counter.name, counter.help)
	}
	members := c.describe("group_members", "Members of all groups, with ids that were given out and not used yet.")
	states := c.describe("groups", "Groups by type and state.", "type", "state")
	offsets := c.describe("group_offsets", "Committed offsets that are kept.")
	lag := c.describe("group_lag", "Records behind the committed offset of a group.", "group", "topic", "partition")
	unshown := c.describe("group_lag_unshown", "Committed offsets whose lag is not exported, since there are too many.")
	c.reads = append(c.reads, func(out chan<- prometheus.Metric) {
		_, kept := s.GroupStore().Sizes()
		out <- prometheus.MustNewConstMetric(offsets, prometheus.GaugeValue, float64(kept))
		m, ok := s.GroupMetrics()
		if !ok {
			return
		}
		left := 0
		for i, l := range s.GroupLags() {
			if i >= lagsMax {
				left++
				continue
			}
			out <- prometheus.MustNewConstMetric(lag, prometheus.GaugeValue, float64(l.Records), l.Group, l.Topic, strconv.Itoa(int(l.Partition)))
		}
		out <- prometheus.MustNewConstMetric(unshown, prometheus.GaugeValue, float64(left))
		for i, counter := range counters {
			out <- prometheus.MustNewConstMetric(descriptions[i], prometheus.CounterValue, float64(counter.read(&m)))
		}
		out <- prometheus.MustNewConstMetric(members, prometheus.GaugeValue, float64(m.Members))
		for state, n := range m.States {
			out <- prometheus.MustNewConstMetric(states, prometheus.GaugeValue, float64(n), state.Type, state.State)
		}
	})
	return c
}
