package cli

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"millrace/cmd/broker"
	"millrace/diskio"
	"millrace/engine"
	"millrace/engine/model"
)

// inspectFlags are the options of inspect.
type inspectFlags struct {
	dir        string
	topics     []string
	partitions []int32
	appends    bool
	records    bool
	json       bool
	repair     bool
	dryRun     bool
}

func (a *App) inspectCommand() *cobra.Command {
	var f inspectFlags
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "Read a data directory without a broker and verify every checksum",
		Long: `Read a data directory without a broker, whether one runs on it or not, and verify every checksum. Of several data
directories (log.dirs) name one; which of them it is comes first. The first damage of each segment is printed with file and position, and the exit code is then 1, as it is where
nothing is found to read. "offsets A to B" names the first and the last; end_offset in JSON is the one after it.

With --repair say instead what would let a broker start again that refuses to, and with --dry-run=false do it. No broker
may run on the directory; what is replaced is kept beside it. Without --repair nothing is changed.

With --json each line is an object: its type is directory, note, shard, segment, append, record, damage or, last, summary.`,
		Example: `  millrace inspect --data-dir ./data
  millrace inspect --data-dir ./data --topic orders --partition 0 --records
  millrace inspect --data-dir ./data --repair --dry-run=false`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return a.inspect(&f) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.dir, "data-dir", "d", "", "data directory of a broker")
	flags.StringArrayVarP(&f.topics, "topic", "t", nil, "only shards of this topic; repeatable")
	flags.Int32SliceVarP(&f.partitions, "partition", "p", nil, "only shards of this partition; repeatable")
	flags.BoolVar(&f.appends, "appends", false, "list appends")
	flags.BoolVar(&f.records, "records", false, "list appends and records")
	flags.BoolVar(&f.json, "json", false, "print JSON, an object a line")
	flags.BoolVar(&f.repair, "repair", false, "say what would let a broker start again")
	flags.BoolVar(&f.dryRun, "dry-run", true, "with --repair: change nothing")
	return cmd
}

func (a *App) inspect(f *inspectFlags) error {
	if f.dir == "" {
		return usagef("say which directory: --data-dir DIR")
	}
	info, err := os.Stat(f.dir)
	if err != nil && strings.Contains(f.dir, ",") {
		return usagef("--data-dir %s: inspect reads one directory at a time: name one of these", f.dir)
	} else if err != nil {
		return fmt.Errorf("data directory: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("data directory: %s is not a directory", f.dir)
	}
	// Opening probes a directory by writing; the one that is inspected stays as it is, and may be read-only.
	fs, err := diskio.Open(os.TempDir(), diskio.Options{Backend: diskio.BackendPosix})
	if err != nil {
		return err
	}
	defer fs.Close()
	if f.repair {
		return a.repair(f, fs)
	}
	out := bufio.NewWriterSize(a.Out, 1<<16)
	i := &inspection{flags: f, out: out, encoder: json.NewEncoder(out)}
	i.encoder.SetEscapeHTML(false)
	role, unknown := broker.RoleOf(f.dir)
	if unknown == nil {
		err = i.directory(role)
	}
	if err == nil {
		err = engine.Inspect(f.dir, fs, i.visitor())
	}
	if err == nil {
		err = i.summary()
	}
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	if err == nil && i.total.Damages > 0 {
		return errQuiet
	}
	if err == nil && i.total.Shards == 0 {
		return a.nothing(f, i.all, unknown)
	}
	return err
}

// nothing says why no shard was printed. Only a broker's directory without one is no error; unknown says why it may be none.
func (a *App) nothing(f *inspectFlags, all int64, unknown error) error {
	filtered := len(f.topics) > 0 || len(f.partitions) > 0
	switch {
	case unknown != nil && all == 0:
		return fmt.Errorf("%s is no data directory of a broker: it has neither broker.lock nor partitions (%w); --data-dir wants one that serve has as log.dirs", f.dir, unknown)
	case filtered && all == 0:
		return fmt.Errorf("%s has no partitions yet, so none that --topic and --partition name", f.dir)
	case filtered:
		return fmt.Errorf("none of the %s in %s is one that --topic and --partition name; without them all are listed", count(all, "shard"), f.dir)
	}
	fmt.Fprintf(a.Err, "%s is a broker's data directory and has no partitions yet\n", f.dir)
	return nil
}

// inspection prints what engine.Inspect finds.
type inspection struct {
	flags   *inspectFlags
	out     *bufio.Writer
	encoder *json.Encoder
	topic   string
	all     int64 // shards, also those that are not asked for
	// of the segment that is walked
	appends, records int64
	total            inspectSummary
}

type inspectSummary struct {
	Type     string `json:"type"`
	Shards   int64  `json:"shards"`
	Segments int64  `json:"segments"`
	Appends  int64  `json:"appends"`
	Records  int64  `json:"records"`
	Bytes    int64  `json:"bytes"`
	Damages  int64  `json:"damages"`
}

func (i *inspection) visitor() *engine.Visitor {
	return &engine.Visitor{Shard: i.shard, Segment: i.segment, Append: i.append, Record: i.recordVisitor(), End: i.end,
		Damage: i.damage, Note: i.note}
}

func (i *inspection) recordVisitor() func(*engine.SegmentInfo, *model.AppendHeader, *model.Record) error {
	if !i.flags.records {
		return nil
	}
	return i.record
}

// print writes an object or, without --json, a line.
func (i *inspection) print(object any, format string, args ...any) error {
	if i.flags.json {
		return i.encoder.Encode(object)
	}
	_, err := fmt.Fprintf(i.out, format+"\n", args...)
	return err
}

// directory tells which of a broker's directories is inspected.
func (i *inspection) directory(r broker.Role) error {
	object := struct {
		Type    string   `json:"type"`
		Path    string   `json:"path"`
		Role    string   `json:"role"`
		First   string   `json:"first,omitempty"`
		NodeID  *int32   `json:"node_id,omitempty"`
		Further []string `json:"further,omitempty"`
	}{Type: "directory", Path: i.flags.dir, Role: "only", First: r.First, Further: r.Further}
	line := "the only data directory of its broker"
	switch {
	case r.First != "":
		object.Role, object.NodeID = "further", &r.NodeID
		line = fmt.Sprintf("a further data directory of broker %d, whose first, with its topics, settings and groups, is %s", r.NodeID, r.First)
	case len(r.Further) > 0:
		object.Role = "first"
		line = "the first data directory of its broker; partitions are in " + strings.Join(r.Further, ", ") + " besides"
	}
	return i.print(object, "%s: %s", i.flags.dir, line)
}

func (i *inspection) shard(s *engine.ShardInfo) error {
	i.all++
	// A shard whose file does not tell may be of any topic.
	if len(i.flags.topics) > 0 && s.Topic != "" && !slices.Contains(i.flags.topics, s.Topic) ||
		len(i.flags.partitions) > 0 && !slices.Contains(i.flags.partitions, s.ID.Partition) {
		return engine.ErrSkipShard
	}
	i.topic = s.Topic
	i.total.Shards++
	return i.print(struct {
		Type      string `json:"type"`
		Shard     string `json:"shard"`
		Dir       string `json:"dir"`
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
		LogStart  int64  `json:"log_start"`
		Segments  int    `json:"segments"`
	}{"shard", s.ID.String(), s.Dir, s.Topic, s.ID.Partition, s.LogStart, s.Segments},
		"topic %s partition %d: %s, shard %s", cmp.Or(s.Topic, "(unknown)"), s.ID.Partition, count(int64(s.Segments), "segment"), s.ID)
}

func (i *inspection) segment(*engine.SegmentInfo) error {
	i.appends, i.records = 0, 0
	i.total.Segments++
	return nil
}

func (i *inspection) end(s *engine.SegmentInfo) error {
	i.total.Bytes += s.Bytes
	offsets := fmt.Sprintf("offsets %d to %d", s.BaseOffset, s.EndOffset-1)
	if s.EndOffset == s.BaseOffset {
		offsets = fmt.Sprintf("empty, begins at offset %d", s.BaseOffset)
	}
	return i.print(struct {
		Type        string `json:"type"`
		Path        string `json:"path"`
		Number      uint64 `json:"number"`
		Generation  uint32 `json:"generation"`
		BaseOffset  int64  `json:"base_offset"`
		EndOffset   int64  `json:"end_offset"`
		LeaderEpoch int32  `json:"leader_epoch"`
		Created     int64  `json:"created"`
		Bytes       int64  `json:"bytes"`
		FileBytes   int64  `json:"file_bytes"`
		Appends     int64  `json:"appends"`
		Records     int64  `json:"records"`
	}{"segment", s.Path, s.Number, s.Generation, s.BaseOffset, s.EndOffset, s.LeaderEpoch, s.Created, s.Bytes, s.FileBytes, i.appends, i.records},
		"  segment %d generation %d: %s, %s, %s, %d of %d bytes, epoch %d", s.Number, s.Generation, offsets,
		count(i.appends, "append"), count(i.records, "record"), s.Bytes, s.FileBytes, s.LeaderEpoch)
}

func (i *inspection) append(s *engine.SegmentInfo, position int64, h *model.AppendHeader) error {
	i.appends++
	i.records += int64(h.RecordCount)
	i.total.Appends++
	i.total.Records += int64(h.RecordCount)
	if !i.flags.appends && !i.flags.records {
		return nil
	}
	return i.print(struct {
		Type          string `json:"type"`
		Position      int64  `json:"position"`
		Length        uint32 `json:"length"`
		Kind          string `json:"kind"`
		Flags         string `json:"flags"`
		Codec         string `json:"codec"`
		BaseOffset    int64  `json:"base_offset"`
		LastOffset    int64  `json:"last_offset"`
		Records       uint32 `json:"records"`
		Blocks        uint32 `json:"blocks"`
		LeaderEpoch   int32  `json:"leader_epoch"`
		BaseTimestamp int64  `json:"base_timestamp"`
		MaxTimestamp  int64  `json:"max_timestamp"`
		ProducerID    int64  `json:"producer_id"`
		ProducerEpoch int16  `json:"producer_epoch"`
		BaseSequence  int32  `json:"base_sequence"`
		LastSequence  int32  `json:"last_sequence"`
	}{"append", position, h.Length, h.Kind.String(), h.Flags.String(), h.Codec.String(), h.BaseOffset, h.LastOffset, h.RecordCount, h.BlockCount,
		h.LeaderEpoch, h.BaseTimestamp, h.MaxTimestamp, h.ProducerID, h.ProducerEpoch, h.BaseSequence, h.LastSequence},
		"    append at %d: %v, offsets %d to %d, %s, %d bytes, epoch %d, producer %d epoch %d sequences %d to %d", position, h.Kind, h.BaseOffset,
		h.LastOffset, count(int64(h.RecordCount), "record"), h.Length, h.LeaderEpoch, h.ProducerID, h.ProducerEpoch, h.BaseSequence, h.LastSequence)
}

// inspectedRecord has the fields of the JSON form of consume.
type inspectedRecord struct {
	Type        string       `json:"type"`
	Offset      int64        `json:"offset"`
	Timestamp   int64        `json:"timestamp"`
	Key         optional     `json:"key,omitzero"`
	KeyBase64   *string      `json:"key_base64,omitempty"`
	Value       optional     `json:"value,omitzero"`
	ValueBase64 *string      `json:"value_base64,omitempty"`
	Headers     []jsonHeader `json:"headers,omitempty"`
}

func (i *inspection) record(_ *engine.SegmentInfo, h *model.AppendHeader, r *model.Record) error {
	timestamp := h.BaseTimestamp + r.TimestampDelta
	if !i.flags.json {
		_, err := fmt.Fprintf(i.out, "      record %d: timestamp %d, key %s, value %s\n", r.Offset, timestamp, quoted(r.Key), quoted(r.Value))
		return err
	}
	j := inspectedRecord{Type: "record", Offset: r.Offset, Timestamp: timestamp}
	j.Key, j.KeyBase64 = toText(r.Key)
	j.Value, j.ValueBase64 = toText(r.Value)
	var err error
	if j.Headers, err = storedHeaders(r.Headers); err != nil {
		return fmt.Errorf("record %d: %w", r.Offset, err)
	}
	return i.encoder.Encode(j)
}

// quotedBytesMax bounds what a line shows of a key or value.
const quotedBytesMax = 100

func quoted(b []byte) string {
	if b == nil {
		return "null"
	}
	if len(b) > quotedBytesMax {
		return fmt.Sprintf("%q... (%d bytes)", b[:quotedBytesMax], len(b))
	}
	return fmt.Sprintf("%q", b)
}

// storedHeaders puts the headers of a record into the form of consume.
func storedHeaders(raw []byte) ([]jsonHeader, error) {
	var headers []jsonHeader
	reader := model.ReadHeaders(raw)
	for h := (model.Header{}); reader.Next(&h); {
		headers = append(headers, newJSONHeader(h.Name, h.Value))
	}
	return headers, reader.Err()
}

// note tells what limits the inspection.
func (i *inspection) note(text string) error {
	return i.print(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"note", text}, "note: %s", text)
}

func (i *inspection) damage(d *engine.Damage) error {
	i.total.Damages++
	return i.print(struct {
		Type     string `json:"type"`
		Path     string `json:"path"`
		Position int64  `json:"position"`
		Offset   int64  `json:"offset"`
		Error    string `json:"error"`
	}{"damage", d.Path, d.Position, d.Offset, d.Err.Error()}, "  DAMAGE %v", d)
}

func (i *inspection) summary() error {
	i.total.Type = "summary"
	t := i.total
	return i.print(t, "%s, %s, %s, %s, %d bytes verified, %s", count(t.Shards, "shard"), count(t.Segments, "segment"),
		count(t.Appends, "append"), count(t.Records, "record"), t.Bytes, count(t.Damages, "damage"))
}
