package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// produceFlags are the options of produce.
type produceFlags struct {
	client        clientFlags
	format        string
	file          string
	key           string
	keySeparator  string
	headers       []string
	partition     int32
	timestamp     string
	acks          string
	codec         string
	notIdempotent bool
	linger        time.Duration
	batchBytes    int32
	quiet         bool
}

func (a *App) produceCommand() *cobra.Command {
	var f produceFlags
	cmd := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Produce records from standard input or a file",
		Long: `Produce records from standard input or a file to any broker that speaks the Kafka protocol.

With --format lines each line is the value of a record; with --key-separator what stands before it is the key.
With --format json each JSON object is a record, as consume --format json writes it:
  {"key":"k","value":"v","headers":[{"key":"h","value":"x"}],"partition":0,"timestamp":1700000000000}
Bytes that are not UTF-8 are given in base64 as key_base64, value_base64. null is a null key or value.`,
		Example: `  echo hello | millrace produce greetings
  millrace produce orders --key-separator : --codec zstd --file orders.txt`,
		Args: oneTopic,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.produce(cmd.Context(), args[0], &f)
		},
	}
	f.client.add(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.format, "format", "f", "lines", "lines or json")
	flags.StringVar(&f.file, "file", "-", "file to read; - is standard input")
	flags.StringVarP(&f.key, "key", "k", "", "the key of every record that has none of its own")
	flags.StringVarP(&f.keySeparator, "key-separator", "K", "", "what stands between key and value of a line")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "NAME=VALUE added to every record; repeatable")
	flags.Int32VarP(&f.partition, "partition", "p", -1, "partition to produce to; chosen by key if not given")
	flags.StringVar(&f.timestamp, "timestamp", "", "time of records that have none of their own: milliseconds since 1970 or RFC 3339; now if not given")
	flags.StringVar(&f.acks, "acks", "all", "who must have a record before it counts: all, 1 (the leader) or 0 (nobody)")
	flags.StringVarP(&f.codec, "codec", "z", "none", "none, gzip, snappy, lz4 or zstd")
	flags.BoolVar(&f.notIdempotent, "no-idempotence", false, "do not number batches; a retry may then write a record twice")
	flags.DurationVar(&f.linger, "linger", 5*time.Millisecond, "how long a batch waits for more records")
	flags.Int32Var(&f.batchBytes, "batch-bytes", 1_000_000, "largest batch in bytes")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print neither progress nor totals")
	return cmd
}

// template is what the flags say of every record.
type template struct {
	key       []byte
	headers   []kgo.RecordHeader
	partition int32
	timestamp time.Time
}

// apply fills in what the record does not say itself.
func (t *template) apply(topic string, r *kgo.Record) {
	r.Topic = topic
	if r.Key == nil {
		r.Key = t.key
	}
	if t.partition >= 0 {
		r.Partition = t.partition
	}
	if r.Timestamp.IsZero() {
		r.Timestamp = t.timestamp
	}
	r.Headers = append(r.Headers, t.headers...)
}

func (f *produceFlags) template() (*template, error) {
	t := &template{partition: f.partition}
	if f.partition < -1 {
		return nil, usagef("--partition %d must be 0 or more", f.partition)
	}
	if f.key != "" {
		t.key = []byte(f.key)
	}
	for _, pair := range f.headers {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, usagef("--header %q is not NAME=VALUE", pair)
		}
		t.headers = append(t.headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	if f.timestamp != "" {
		var err error
		if t.timestamp, err = parseTime(f.timestamp); err != nil {
			return nil, usagef("--timestamp: %w", err)
		}
	}
	return t, nil
}

func (f *produceFlags) options() ([]kgo.Opt, error) {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	codec, ok := codecs[f.codec]
	if !ok {
		return nil, usagef("--codec %q is none of none, gzip, snappy, lz4, zstd", f.codec)
	}
	opts := []kgo.Opt{
		kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(f.linger), kgo.ProducerBatchMaxBytes(f.batchBytes),
		kgo.UnknownTopicRetries(1), kgo.AllowAutoTopicCreation(),
		// A retry waits for new metadata, and records are given up only between two tries.
		kgo.MetadataMinAge(250 * time.Millisecond),
		// The client's own delivery timeout counts from a record's timestamp, which may be years ago; see watch.
		kgo.AllowIdempotentProduceCancellation(),
	}
	switch f.acks {
	case "all", "-1":
		opts = append(opts, kgo.RequiredAcks(kgo.AllISRAcks()))
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()))
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()))
	default:
		return nil, usagef("--acks %q is none of all, 1, 0", f.acks)
	}
	// Only acks=all allows numbered batches.
	if f.notIdempotent || (f.acks != "all" && f.acks != "-1") {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	return opts, nil
}

// partitioner sends a record to the partition it names and leaves the others to what it embeds.
type partitioner struct {
	kgo.Partitioner
	beyond *atomic.Pointer[error] // the first record that names a partition which is not there
}

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return topicPartitioner{p.Partitioner.ForTopic(topic), p.beyond}
}

type topicPartitioner struct {
	kgo.TopicPartitioner
	beyond *atomic.Pointer[error]
}

func (p topicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition >= 0 || p.TopicPartitioner.RequiresConsistency(r)
}

// Partition answers a number beyond the last partition as it is: the client then fails the record.
func (p topicPartitioner) Partition(r *kgo.Record, n int) int {
	if r.Partition < 0 {
		return p.TopicPartitioner.Partition(r, n)
	}
	if int(r.Partition) >= n {
		err := noPartition(r.Topic, r.Partition, n)
		p.beyond.CompareAndSwap(nil, &err)
	}
	return int(r.Partition)
}

// OnNewBatch passes on what a sticky partitioner needs to know.
func (p topicPartitioner) OnNewBatch() {
	if n, ok := p.TopicPartitioner.(kgo.TopicPartitionerOnNewBatch); ok {
		n.OnNewBatch()
	}
}

type recordReader interface {
	// read returns io.EOF at the end.
	read() (*kgo.Record, error)
}

func (f *produceFlags) reader(in io.Reader) (recordReader, error) {
	switch f.format {
	case "lines":
		return newLineReader(in, f.keySeparator), nil
	case "json":
		if f.keySeparator != "" {
			return nil, usagef("--key-separator is for --format lines")
		}
		return newJSONReader(in), nil
	}
	return nil, usagef("--format %q is neither lines nor json", f.format)
}

func (a *App) produce(parent context.Context, topic string, f *produceFlags) error {
	t, err := f.template()
	if err != nil {
		return err
	}
	opts, err := f.options()
	if err != nil {
		return err
	}
	in := a.In
	if f.file != "-" {
		file, err := os.Open(f.file)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	reader, err := f.reader(in)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(parent)
	defer stop()
	complaint, beyond := &complaint{}, &atomic.Pointer[error]{}
	opts = append(opts, kgo.WithHooks(complaint), kgo.WithLogger(complaint),
		kgo.RecordPartitioner(partitioner{kgo.StickyKeyPartitioner(nil), beyond}))
	client, err := f.client.client(ctx, opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	if t.partition >= 0 {
		if err := checkPartition(ctx, client, topic, t.partition); err != nil {
			return err
		}
	}
	typed := a.InTerminal && f.file == "-"
	if typed && !f.quiet {
		fmt.Fprintln(a.Err, "Type one record a line; Ctrl-D ends.")
	}
	p := &production{client: client, topic: topic, template: t, reader: reader, timeout: f.client.timeout,
		complaint: complaint, beyond: beyond,
		progress: startProgress(a.Err, "produced", a.Terminal && !f.quiet && !typed)}
	err = p.run(ctx)
	p.progress.finish(!f.quiet)
	return err
}

// checkPartition says early what the client would only say after its retries.
func checkPartition(ctx context.Context, client *kgo.Client, topic string, partition int32) error {
	details, err := kadm.NewClient(client).ListTopics(ctx, topic)
	if err != nil {
		return err
	}
	d := details[topic]
	if d.Err != nil {
		return explain(topic, d.Err)
	}
	if _, ok := d.Partitions[partition]; !ok {
		return noPartition(topic, partition, len(d.Partitions))
	}
	return nil
}

func noPartition(topic string, partition int32, n int) error {
	return fmt.Errorf("topic %s has no partition %d: it has %s, numbered from 0", topic, partition, count(int64(n), "partition"))
}

// production is one run of produce.
type production struct {
	client    *kgo.Client
	topic     string
	template  *template
	reader    recordReader
	progress  *progress
	timeout   time.Duration
	complaint *complaint
	beyond    *atomic.Pointer[error]
	settled   atomic.Int64 // records that were acknowledged or given up

	mu     sync.Mutex
	failed error // the first error of a record
	lost   int64 // records that were not acknowledged
}

type readResult struct {
	record *kgo.Record
	err    error
}

// run reads until the end, an error or an interrupt, and waits for what was read to be acknowledged.
func (p *production) run(ctx context.Context) error {
	// The input may block for ever, so a goroutine of its own reads it; it ends with the input, or with the
	// process where the run was interrupted.
	records := make(chan readResult, 1024)
	give := make(chan struct{})
	defer close(give)
	go func() {
		defer close(records)
		for {
			r, err := p.reader.read()
			select {
			case records <- readResult{r, err}:
			case <-give:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	// What was read is delivered also after an interrupt, as long as the broker goes on taking it.
	sending, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	var watching sync.WaitGroup
	watching.Go(func() { p.watch(sending, giveUp) })
	readErr := p.feed(ctx, sending, records)
	// Records that are given up count as flushed.
	flushErr := p.client.Flush(context.WithoutCancel(ctx))
	giveUp(nil)
	watching.Wait()
	if flushErr != nil {
		return flushErr
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		cause := explain(p.topic, p.failed)
		if beyond := p.beyond.Load(); beyond != nil {
			cause = *beyond
		}
		return fmt.Errorf("%w; %s not acknowledged, %d acknowledged", cause, count(p.lost, "record"), p.progress.records.Load())
	}
	if readErr == nil && ctx.Err() != nil {
		return fmt.Errorf("interrupted; all that was read is acknowledged: %s", count(p.progress.records.Load(), "record"))
	}
	return readErr
}

// watch gives up when records wait and none of them is acknowledged for the timeout.
func (p *production) watch(sending context.Context, giveUp context.CancelCauseFunc) {
	tick := time.NewTicker(max(p.timeout/8, 10*time.Millisecond))
	defer tick.Stop()
	settled, since := p.settled.Load(), time.Now()
	for {
		select {
		case <-sending.Done():
			return
		case now := <-tick.C:
			if n := p.settled.Load(); n != settled || p.client.BufferedProduceRecords() == 0 {
				settled, since = n, now
			} else if now.Sub(since) >= p.timeout {
				giveUp(p.complaint.reason())
				return
			}
		}
	}
}

// feed hands records to the client. It returns what ended the input, nil at its end or after an interrupt.
func (p *production) feed(ctx, sending context.Context, records <-chan readResult) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case next := <-records:
			if errors.Is(next.err, io.EOF) {
				return nil
			}
			if next.err != nil {
				return next.err
			}
			p.template.apply(p.topic, next.record)
			p.client.Produce(sending, next.record, func(r *kgo.Record, err error) {
				if errors.Is(err, context.Canceled) {
					err = context.Cause(sending)
				}
				p.acknowledged(r, err)
			})
			if p.hasFailed() {
				return nil
			}
		}
	}
}

func (p *production) acknowledged(r *kgo.Record, err error) {
	p.settled.Add(1)
	if err == nil {
		p.progress.add(len(r.Key) + len(r.Value))
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost++
	if p.failed == nil {
		p.failed = err
	}
}

func (p *production) hasFailed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed != nil
}

// parseTime reads milliseconds since 1970 or RFC 3339.
func parseTime(text string) (time.Time, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.UnixMilli(ms), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither milliseconds since 1970 nor a time like 2026-01-31T12:00:00Z", text)
	}
	return t, nil
}
