package admin

import (
	"cmp"
	"encoding/base64"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/engine"
	"millrace/engine/model"
	"millrace/kafka"
	"millrace/meta/cluster"
	"millrace/meta/config"
	"millrace/netio"
	"millrace/perf"
)

// Source is what the page shows. All of it may be read at any time.
type Source struct {
	Config  *config.Broker
	Cluster *cluster.Machine
	Shards  kafka.Shards
	Kafka   *kafka.Server
	Net     *netio.Metrics
	Pool    *perf.Pool
	Disks   func() []Disk
	Healthy func() error // what is wrong, nil: nothing
	Version string
	Started time.Time
}

// Disk is a data directory.
type Disk struct {
	Directory  string `json:"directory"`
	Backend    string `json:"backend"` // how it is written
	Reason     string `json:"reason"`  // why so
	TotalBytes int64  `json:"total_bytes"`
	FreeBytes  int64  `json:"free_bytes"` // for the broker
	Cordoned   bool   `json:"cordoned"`   // it gets no new partitions
	Error      string `json:"error,omitempty"`
}

// view answers from a source.
type view struct {
	Source
	history     history
	topicBoard  board[TopicRow]
	groupBoard  board[GroupRow]
	clientBoard board[ClientRow]
}

// engine adds up a figure of the stores of all directories.
func (v *view) engine(figure func(*engine.Metrics) int64) (sum int64) {
	for _, s := range v.Shards.Stores() {
		sum += figure(s.Metrics())
	}
	return sum
}

// Gauge is something that has a limit.
type Gauge struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
	Limit int64  `json:"limit"` // 0: none
	Bytes bool   `json:"bytes"`
}

// Overview is what /api/overview answers.
type Overview struct {
	ClusterID     string       `json:"cluster_id"`
	NodeID        int32        `json:"node_id"`
	Version       string       `json:"version"`
	Started       time.Time    `json:"started"`
	Now           time.Time    `json:"now"`
	Health        string       `json:"health"` // empty: well
	Topics        int          `json:"topics"`
	Partitions    int          `json:"partitions"`
	Groups        int          `json:"groups"`
	Connections   int64        `json:"connections"`
	DamagedShards int64        `json:"damaged_shards"`
	Brokers       []Registered `json:"brokers"`
	Disks         []Disk       `json:"disks"`
	Bounded       []Gauge      `json:"bounded"` // what has a limit, and how near it is
}

// Registered is a broker of the cluster.
type Registered struct {
	NodeID     int32     `json:"node_id"`
	Rack       string    `json:"rack"`
	Endpoints  []string  `json:"endpoints"`
	Registered time.Time `json:"registered"`
}

func (v *view) overview(*parameters) (any, error) {
	image := v.Cluster.Image()
	groups, _ := v.Kafka.GroupStore().Sizes()
	out := Overview{
		ClusterID: image.ClusterID, NodeID: v.Config.NodeID, Version: v.Version, Started: v.Started, Now: time.Now(),
		Topics: image.TopicCount(), Partitions: image.PartitionCount(), Groups: groups,
		Connections: v.Net.ConnectionsOpen.Load(), DamagedShards: v.engine(func(m *engine.Metrics) int64 { return m.QuarantinedShards.Load() }), Disks: v.Disks(),
		Bounded: []Gauge{
			{"connections", v.Net.ConnectionsOpen.Load(), v.Net.ConnectionsMax.Load(), false},
			{"bytes of requests in flight", v.Net.InflightBytes.Load(), v.Config.QueuedRequestBytesMax, true},
			{"fetch sessions", int64(v.Kafka.SessionCount()), int64(v.Config.FetchSessionSlots), false},
			{"bytes of replies that wait", v.Net.OutboundBytes.Load(), 0, true},
			{"bytes that wait for the disk", v.engine(func(m *engine.Metrics) int64 { return m.GatheredBytes.Load() }), 0, true},
			{"segment files open", v.engine(func(m *engine.Metrics) int64 { return m.SegmentsOpen.Load() }), 0, false},
			{"pooled buffers in use", v.Pool.Leased(), 0, true},
		},
	}
	if err := v.Healthy(); err != nil {
		out.Health = err.Error()
	}
	for _, b := range image.Brokers() {
		row := Registered{NodeID: b.NodeID, Rack: b.Rack, Registered: b.Registered, Endpoints: []string{}}
		for _, e := range b.Endpoints {
			row.Endpoints = append(row.Endpoints, e.Listener+"://"+net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))))
		}
		out.Brokers = append(out.Brokers, row)
	}
	return out, nil
}

// TopicRow is a topic in /api/topics. Rates are nil where they are not known yet.
type TopicRow struct {
	Name       string   `json:"name"`
	ID         string   `json:"id"`
	Partitions int      `json:"partitions"`
	Bytes      int64    `json:"bytes"`   // on disk
	Records    int64    `json:"records"` // offsets between log start and high watermark
	InRate     *float64 `json:"records_in_per_second"`
	GrowthRate *float64 `json:"bytes_growth_per_second"`

	ends int64
}

func (v *view) topicRows() []TopicRow {
	return v.topicBoard.look(func(before []TopicRow, since float64) []TopicRow {
		old := make(map[string]*TopicRow, len(before))
		for i := range before {
			old[before[i].ID] = &before[i]
		}
		var rows []TopicRow
		v.Cluster.Image().Topics(func(t *cluster.Topic) bool {
			row := TopicRow{Name: t.Name, ID: base64.RawURLEncoding.EncodeToString(t.ID[:]), Partitions: len(t.Partitions)}
			for p := range t.Partitions {
				if sh := v.Shards.Shard(model.ShardID{Topic: t.ID, Partition: int32(p)}); sh != nil {
					state := sh.State()
					row.Bytes += sh.Size()
					row.Records += state.HighWatermark - state.LogStart
					row.ends += state.HighWatermark
				}
			}
			if o := old[row.ID]; o != nil {
				row.InRate, row.GrowthRate = rate(row.ends, o.ends, since), rate(row.Bytes, o.Bytes, since)
			}
			rows = append(rows, row)
			return true
		})
		return rows
	})
}

func (v *view) topics(p *parameters) (any, error) {
	order := p.choice("sort", "name", "rate", "size", "records")
	return listed(p, v.topicRows(), func(t *TopicRow) string { return t.Name }, func(a, b *TopicRow) int {
		switch order {
		case "rate":
			return byRate(a.InRate, b.InRate)
		case "size":
			return cmp.Compare(b.Bytes, a.Bytes)
		case "records":
			return cmp.Compare(b.Records, a.Records)
		}
		return strings.Compare(a.Name, b.Name)
	}), nil
}

type partitionRow struct {
	Partition     int32   `json:"partition"`
	Leader        int32   `json:"leader"`
	LeaderEpoch   int32   `json:"leader_epoch"`
	Replicas      []int32 `json:"replicas"`
	ISR           []int32 `json:"isr"`
	Here          bool    `json:"here"` // what follows is known
	LogStart      int64   `json:"log_start_offset"`
	HighWatermark int64   `json:"high_watermark"`
	LogEnd        int64   `json:"log_end_offset"`
	Bytes         int64   `json:"bytes"`
	Damaged       bool    `json:"damaged"`
}

type topicDetail struct {
	TopicRow
	Created time.Time      `json:"created"`
	Configs [][2]string    `json:"configs"` // set on the topic itself
	Rows    []partitionRow `json:"rows"`
}

func (v *view) topicNamed(name string) (*cluster.Topic, error) {
	t := v.Cluster.Image().TopicByName([]byte(name))
	if t == nil {
		return nil, refusef(http.StatusNotFound, "there is no topic %q", name)
	}
	return t, nil
}

func (v *view) topic(p *parameters) (any, error) {
	t, err := v.topicNamed(p.text("name"))
	if err != nil {
		return nil, err
	}
	out := topicDetail{TopicRow: TopicRow{Name: t.Name, Partitions: len(t.Partitions)}, Created: t.Created, Configs: [][2]string{}, Rows: []partitionRow{}}
	for _, row := range v.topicRows() {
		if row.Name == t.Name {
			out.TopicRow = row
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Configs)) {
		out.Configs = append(out.Configs, [2]string{name, t.Configs[name]})
	}
	from, limit := p.number("from", 0, 0, 1<<31-1), p.number("limit", 200, 1, listMax)
	for i := from; i < min(from+limit, int64(len(t.Partitions))); i++ {
		in := &t.Partitions[i]
		row := partitionRow{Partition: int32(i), Leader: in.Leader, LeaderEpoch: in.LeaderEpoch, Replicas: in.Replicas, ISR: in.ISR}
		if sh := v.Shards.Shard(model.ShardID{Topic: t.ID, Partition: int32(i)}); sh != nil {
			state := sh.State()
			row.Here, row.Damaged, row.Bytes = true, state.Quarantined, sh.Size()
			row.LogStart, row.HighWatermark, row.LogEnd = state.LogStart, state.HighWatermark, state.LogEnd
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}
