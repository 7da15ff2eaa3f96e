package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"millrace/diskio/disktest"
	"millrace/engine"
	"millrace/engine/model"
	"millrace/kafka/group"
	"millrace/meta"
	"millrace/meta/cluster"
	"millrace/meta/config"
	"millrace/perf"
)

const (
	// powerCutsDefault is how many power cuts a test run survives; a tenth under the race detector.
	powerCutsDefault = 300
	// powerCutsPerHistory is where a history ends and another begins on an empty disk.
	powerCutsPerHistory = 25
	powerTopicsMax      = 5
)

// number reads an option of the tests.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// limit reads how long a test may go on; 0 is for ever.
func limit(t *testing.T) time.Duration {
	t.Helper()
	s := os.Getenv("MILLRACE_TEST_TIME")
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatalf("MILLRACE_TEST_TIME: %v", err)
	}
	return d
}

// TestPowerCuts takes the power from both stores of a broker at one moment, again and again, also while it recovers:
// afterwards topics, committed offsets and records are those that were acknowledged, and agree with one another.
// MILLRACE_TEST_CUTS says how many cuts there are, MILLRACE_TEST_TIME how long it may take, MILLRACE_TEST_SEED which
// history to run alone.
func TestPowerCuts(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	cuts := int64(number(t, "MILLRACE_TEST_CUTS", powerCutsDefault))
	if raceEnabled && os.Getenv("MILLRACE_TEST_CUTS") == "" {
		cuts /= 10
	}
	first := number(t, "MILLRACE_TEST_SEED", 0)
	alone := first != 0
	if !alone {
		first = rand.Uint64() >> 1
	}
	span, began := limit(t), time.Now()
	var done, next atomic.Int64
	for worker := range 2 {
		t.Run(fmt.Sprint("worker=", worker), func(t *testing.T) {
			t.Parallel()
			for done.Load() < cuts && (span == 0 || time.Since(began) < span) {
				seed := first + uint64(next.Add(1)) - 1
				if alone && seed != first {
					return
				}
				done.Add(runPowerHistory(t, seed))
				if t.Failed() {
					t.Logf("repeat: MILLRACE_TEST_SEED=%d go test -run TestPowerCuts ./cmd/broker", seed)
					return
				}
			}
		})
	}
	t.Cleanup(func() { t.Logf("%d power cuts from seed %d on in %v", done.Load(), first, time.Since(began)) })
}

// powerHistory drives a broker's stores on a simulated disk, and what a simple mind expects of them.
type powerHistory struct {
	t      *testing.T
	random *rand.Rand
	disk   *disktest.Disk
	broker *Broker
	sink   *powerSink
	log    []string
	cuts   int64
	tag    uint64

	topics  map[string]*powerTopic
	commits map[powerPlace]int64
	unsure  *powerChange // proposed and not answered when the power went
}

type powerTopic struct {
	id      model.TopicID
	durable bool // flush.messages is 1
	logs    []*powerLog
}

// powerLog is one partition.
type powerLog struct {
	values            map[int64][]byte   // published
	maybe             map[int64][][]byte // answered with an error, or not at all
	epochs            map[powerAt][]byte // ever published: an epoch's offset is never used twice
	start, end        int64
	durable, startLow int64 // the log reaches from startLow or above to durable at least, whatever happens
	startHigh         int64 // and does not begin above, unless it is asked to
}

type powerAt struct {
	epoch  int32
	offset int64
}

type powerPlace struct {
	group     string
	topic     model.TopicID
	partition int32
}

// powerChange is a change of the cluster's state.
type powerChange struct {
	what       string // create, delete, grow, commit
	name       string
	topic      *powerTopic
	partitions int
	place      powerPlace
	offset     int64
}

func runPowerHistory(t *testing.T, seed uint64) int64 {
	h := &powerHistory{t: t, random: rand.New(rand.NewPCG(seed, 11)), disk: disktest.New(seed),
		topics: map[string]*powerTopic{}, commits: map[powerPlace]int64{}}
	defer func() {
		if t.Failed() {
			for _, line := range h.log[max(0, len(h.log)-60):] {
				t.Log(line)
			}
		}
	}()
	h.open(false)
	for h.cuts < powerCutsPerHistory && !t.Failed() {
		h.step()
	}
	h.stop(true)
	return h.cuts
}

func (h *powerHistory) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

func (h *powerHistory) fault(format string, args ...any) {
	h.t.Helper()
	h.t.Errorf(format, args...)
}

// open starts the stores as a broker does. With cuts the power may go again meanwhile, once.
func (h *powerHistory) open(cuts bool) {
	settings := parse(h.t, "/data")
	for {
		if cuts = cuts && h.random.IntN(4) == 0; cuts {
			h.disk.CutAfter(int64(h.random.IntN(60)))
		}
		h.sink = newPowerSink()
		log := slog.New(slog.DiscardHandler)
		if os.Getenv("MILLRACE_TEST_SEED") != "" && testing.Verbose() {
			log = slog.New(slog.NewTextHandler(os.Stderr, nil))
		}
		var err error
		h.broker, err = openSimulated(settings, h.disk, h.sink, log)
		if err == nil && !h.disk.IsCut() {
			h.disk.CutAfter(-1)
			h.shrink()
			return
		}
		if !h.disk.IsCut() {
			h.t.Fatalf("open: %v", err)
		}
		h.note("the power went during the start: %v", err)
		h.crash()
	}
}

// openSimulated starts the stores of a broker on a simulated disk, in the order of a start. The broker is to be
// closed also after an error.
func openSimulated(settings *config.Broker, disk *disktest.Disk, sink engine.Sink, log *slog.Logger) (*Broker, error) {
	b := &Broker{config: settings, log: log, pool: perf.NewPool(1 << 20), machine: cluster.NewMachine(),
		groups: group.NewStore(), store: directories{list: []*directory{{path: settings.DataDir, fs: disk}}}}
	b.simulate = func(e *engine.Options, m *meta.Options) {
		e.IndexFS, e.ReserveBytes, e.Sinks = disk.PebbleFS(), 1, []engine.Sink{sink}
		e.CheckpointBytes, e.CheckpointInterval, e.OpenSegmentsMax = 32<<10, time.Hour, 8
		m.FS, m.Sync, m.SnapshotEntries, m.SnapshotBytes = disk.PebbleFS(), true, 20, 1
	}
	ctx := context.Background()
	if err := b.openStores(ctx); err != nil {
		return b, err
	}
	if err := b.checkOrphans(); err != nil {
		return b, err
	}
	return b, b.join(ctx, nil)
}

// crash ends what runs and takes what a machine finds afterwards.
func (h *powerHistory) crash() disktest.CrashMode {
	modes := disktest.CrashModes()
	mode := modes[h.random.IntN(len(modes))]
	h.disk.Cut()
	h.broker.Close(context.Background())
	h.disk = h.disk.Crash(mode)
	h.cuts++
	return mode
}

// shrink makes segments small, so that they roll.
func (h *powerHistory) shrink() {
	for _, topic := range h.topics {
		for p := range topic.logs {
			if sh := h.shard(topic, p); sh != nil {
				c := sh.Config()
				c.SegmentBytes, c.RetentionAge, c.FileDeleteDelay = 8<<10, engine.Forever, -1
				sh.SetConfig(c)
			}
		}
	}
}

func (h *powerHistory) shard(topic *powerTopic, partition int) *engine.Shard {
	return h.broker.store.Shard(model.ShardID{Topic: topic.id, Partition: int32(partition)})
}

func (h *powerHistory) step() {
	if h.disk.IsCut() {
		h.recover(h.crash())
		return
	}
	switch p := h.random.IntN(100); {
	case p < 45:
		h.append()
	case p < 55:
		h.propose(h.drawChange())
	case p < 63:
		h.propose(h.drawCommit())
	case p < 68:
		h.deleteRecords()
	case p < 73:
		h.read()
	case p < 95:
		h.disk.CutAfter(int64(h.random.IntN(30)))
	case p < 97:
		h.stop(false)
	default:
		h.recover(h.crash())
	}
}

// stop ends the broker cleanly, and starts it again unless that was all.
func (h *powerHistory) stop(last bool) {
	err := h.broker.Close(context.Background())
	if h.disk.IsCut() {
		h.disk = h.disk.Crash(disktest.CrashDrop)
		h.cuts++
		h.open(true)
		h.found(false)
		return
	}
	if err != nil {
		h.t.Fatalf("close: %v", err)
	}
	if last {
		return
	}
	h.note("clean stop")
	for _, topic := range h.topics {
		for _, l := range topic.logs {
			l.durable, l.startLow = l.end, l.start
		}
	}
	h.disk = h.disk.Crash(disktest.CrashDrop)
	h.open(true)
	h.found(false)
}

func (h *powerHistory) recover(mode disktest.CrashMode) {
	h.note("power cut %d, %v", h.cuts, mode)
	kept := mode == disktest.CrashKeep
	before := h.cuts
	h.open(true)
	h.found(kept && h.cuts == before)
}

// pick returns a topic and one of its partitions, nil where there is no topic.
func (h *powerHistory) pick() (string, *powerTopic, int) {
	names := sortedNames(h.topics)
	if len(names) == 0 {
		return "", nil, 0
	}
	name := names[h.random.IntN(len(names))]
	topic := h.topics[name]
	return name, topic, h.random.IntN(len(topic.logs))
}

// drawChange draws a change of the topics.
func (h *powerHistory) drawChange() *powerChange {
	name, topic, _ := h.pick()
	p := h.random.IntN(10)
	switch {
	case topic == nil || len(h.topics) < powerTopicsMax && p < 5:
		c := &powerChange{what: "create", name: fmt.Sprint("t", h.random.IntN(2*powerTopicsMax)), partitions: 1 + h.random.IntN(3)}
		if h.topics[c.name] != nil {
			return nil
		}
		c.topic = &powerTopic{durable: h.random.IntN(2) == 0}
		binary.BigEndian.PutUint64(c.topic.id[:], h.random.Uint64())
		binary.BigEndian.PutUint64(c.topic.id[8:], h.random.Uint64())
		return c
	case p < 8:
		return &powerChange{what: "delete", name: name, topic: topic}
	default:
		return &powerChange{what: "grow", name: name, topic: topic, partitions: len(topic.logs) + 1}
	}
}

func (h *powerHistory) drawCommit() *powerChange {
	name, topic, p := h.pick()
	if topic == nil {
		return nil
	}
	place := powerPlace{group: fmt.Sprint("g", h.random.IntN(3)), topic: topic.id, partition: int32(p)}
	return &powerChange{what: "commit", name: name, topic: topic, place: place, offset: h.random.Int64N(topic.logs[p].end + 1)}
}

// propose asks for a change and notes what became of it.
func (h *powerHistory) propose(c *powerChange) {
	if c == nil {
		return
	}
	err := h.send(c)
	h.note("%s %s %x: %v", c.what, c.name, c.topic.id[:4], err)
	if err != nil {
		if !h.disk.IsCut() {
			h.fault("%s %s: %v", c.what, c.name, err)
		}
		h.unsure = c
		return
	}
	h.happened(c)
	h.shrink()
}

func (h *powerHistory) send(c *powerChange) error {
	ctx := context.Background()
	client := cluster.NewClient(h.broker.meta, clusterMachine, h.broker.machine)
	switch c.what {
	case "create":
		configs := map[string]string{}
		if c.topic.durable {
			configs["flush.messages"] = "1"
		}
		results, err := client.CreateTopics(ctx, cluster.CreateTopics{Time: time.Now(), Topics: []cluster.NewTopic{
			{Name: c.name, ID: c.topic.id, Partitions: int32(c.partitions), ReplicationFactor: 1, Configs: configs}}})
		if err == nil && results[0].Failed() {
			err = results[0].Err()
		}
		return err
	case "delete":
		results, err := client.DeleteTopics(ctx, cluster.DeleteTopics{IDs: []model.TopicID{c.topic.id}})
		if err == nil {
			err = results[0].Err()
		}
		return err
	case "grow":
		results, err := client.CreatePartitions(ctx, cluster.CreatePartitions{Topics: []cluster.NewPartitions{{Topic: c.name, Count: int32(c.partitions)}}})
		if err == nil {
			err = results[0].Err()
		}
		return err
	default:
		_, err := h.broker.meta.Propose(ctx, groupMachine, commitCommand(c))
		return err
	}
}

// commitCommand encodes one committed offset as docs/format.md says.
func commitCommand(c *powerChange) []byte {
	const version, putOffset = 1, 3
	text := func(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	b := binary.AppendUvarint([]byte{version}, 1)
	b = append(text(append(b, putOffset), c.place.group), c.topic.id[:]...)
	b = binary.AppendVarint(text(b, c.name), int64(c.place.partition))
	b = binary.AppendVarint(binary.AppendVarint(b, c.offset), -1)
	return binary.AppendVarint(binary.AppendVarint(text(b, ""), 1), -1)
}

// happened brings a change into the model.
func (h *powerHistory) happened(c *powerChange) {
	switch c.what {
	case "create":
		h.topics[c.name] = c.topic
		fallthrough
	case "grow":
		for len(c.topic.logs) < c.partitions {
			c.topic.logs = append(c.topic.logs, &powerLog{values: map[int64][]byte{}, maybe: map[int64][][]byte{}, epochs: map[powerAt][]byte{}})
		}
	case "delete":
		delete(h.topics, c.name)
	default:
		h.commits[c.place] = c.offset
	}
}

// found compares what a start found with the model. kept says that nothing was lost, as after a kill.
func (h *powerHistory) found(kept bool) {
	if h.t.Failed() {
		return
	}
	if c := h.unsure; c != nil && h.did(c) {
		h.note("%s %s happened", c.what, c.name)
		h.happened(c)
	}
	h.unsure = nil
	h.shrink()
	seen := 0
	h.broker.machine.Image().Topics(func(t *cluster.Topic) bool {
		seen++
		if topic := h.topics[t.Name]; topic == nil || topic.id != t.ID || len(topic.logs) != len(t.Partitions) {
			h.fault("topic %s %x of %d partitions, want %+v", t.Name, t.ID[:4], len(t.Partitions), topic)
		}
		return true
	})
	if seen != len(h.topics) {
		h.fault("%d topics, want %v", seen, sortedNames(h.topics))
	}
	for place, offset := range h.commits {
		if got, ok := h.broker.groups.Offset(place.group, place.topic, place.partition); !ok || got.Offset != offset {
			h.fault("group %s committed %d of %x-%d, found %d (%v)", place.group, offset, place.topic[:4], place.partition, got.Offset, ok)
		}
	}
	h.directories()
	for _, name := range sortedNames(h.topics) {
		for p := range h.topics[name].logs {
			h.foundLog(name, p, kept)
		}
	}
}

// did tells whether a change that nobody answered was made.
func (h *powerHistory) did(c *powerChange) bool {
	t := h.broker.machine.Image().TopicByName([]byte(c.name))
	here := t != nil && t.ID == c.topic.id
	switch c.what {
	case "create":
		return here
	case "delete":
		return !here
	case "grow":
		return here && len(t.Partitions) == c.partitions
	default:
		got, ok := h.broker.groups.Offset(c.place.group, c.place.topic, c.place.partition)
		return ok && got.Offset == c.offset
	}
}

// directories finds shards of topics that are not there.
func (h *powerHistory) directories() {
	names, err := h.disk.List("/data")
	if err != nil {
		h.t.Fatal(err)
	}
	known := map[string]bool{}
	for _, topic := range h.topics {
		for p := range topic.logs {
			known[model.ShardID{Topic: topic.id, Partition: int32(p)}.String()] = true
		}
	}
	for _, name := range names {
		if strings.Contains(name, "-") && !strings.Contains(name, ".") && !known[name] {
			h.fault("%s belongs to no topic", filepath.Join("/data", name))
		}
	}
}

func head(b []byte) []byte { return b[:min(len(b), 16)] }

// foundLog compares a recovered partition and takes over what it lost or kept.
func (h *powerHistory) foundLog(name string, p int, kept bool) {
	topic := h.topics[name]
	l, sh := topic.logs[p], h.shard(topic, p)
	if sh == nil || sh.State().Quarantined {
		h.fault("%s-%d is not served", name, p)
		return
	}
	st := sh.State()
	h.note("%s-%d found %+v, model %d to %d, durable %d", name, p, st, l.start, l.end, l.durable)
	least := l.durable
	if kept && len(l.maybe) == 0 {
		least = l.end
	}
	most := max(l.start, l.startHigh)
	if l.durable <= l.start && !kept {
		most = math.MaxInt64 // of a log of which nothing was durable a later segment may be all that is left
	}
	if st.LogEnd < least || st.LogStart < l.startLow || st.LogStart > most || st.LogStart > st.LogEnd {
		h.fault("%s-%d goes from %d to %d, want at least from %d (%d at most) to %d", name, p, st.LogStart, st.LogEnd, l.startLow, most, least)
		return
	}
	values := h.readAll(sh, name, p, st.LogStart)
	for o := st.LogStart; o < st.LogEnd && !h.t.Failed(); o++ {
		h.foundRecord(l, name, p, o, sh.EpochAt(o), values[o])
	}
	for o := range l.values {
		if o < st.LogStart || o >= st.LogEnd {
			delete(l.values, o)
		}
	}
	l.start, l.end, l.durable = st.LogStart, st.LogEnd, st.LogEnd
	l.startLow, l.startHigh = st.LogStart, st.LogStart
	l.maybe = map[int64][][]byte{}
}

func (h *powerHistory) foundRecord(l *powerLog, name string, p int, offset int64, epoch int32, got []byte) {
	ok := got != nil && bytes.Equal(got, l.values[offset])
	for _, v := range l.maybe[offset] {
		ok = ok || bytes.Equal(got, v)
	}
	// A log start that was asked for and lost again shows records that the model let go.
	if at := (powerAt{epoch, offset}); !ok && offset < l.start && bytes.Equal(got, l.epochs[at]) {
		ok = true
	}
	if !ok {
		h.fault("%s-%d offset %d: got %x, want %x", name, p, offset, head(got), head(l.values[offset]))
		return
	}
	l.values[offset] = got
	h.publish(l, name, p, epoch, offset, got)
}

// publish notes what can be read at an offset of an epoch, for good.
func (h *powerHistory) publish(l *powerLog, name string, p int, epoch int32, offset int64, value []byte) {
	at := powerAt{epoch, offset}
	if old := l.epochs[at]; old != nil && !bytes.Equal(old, value) {
		h.fault("%s-%d offset %d of epoch %d was %x and is %x", name, p, offset, epoch, head(old), head(value))
	}
	l.epochs[at] = value
}
