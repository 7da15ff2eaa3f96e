package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// consumeFlags are the options of consume.
type consumeFlags struct {
	client       clientFlags
	group        groupFlags
	format       string
	from         string
	count        int64
	partitions   []int32
	follow       bool
	committed    bool
	keySeparator string
	quiet        bool
}

func (a *App) consumeCommand() *cobra.Command {
	var f consumeFlags
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Print the records of a topic",
		Long: `Print the records of a topic from any broker that speaks the Kafka protocol, up to the end that the topic has
at the start, or with --follow for ever. With --format lines a line is a value, with --key-separator key,
separator and value; a null key is empty. With --format json a line is an object with all of the record; bytes
that are not UTF-8 stand in base64 in key_base64, value_base64.

With --group the records are those of the partitions that the group gives this member: it begins where the group has
committed, or else where --from says, and commits what it has printed. Without --follow it ends when what it owns is read.

--from says where to begin in each partition:
  start             the oldest record (the default)
  end               what comes after now
  N                 offset N
  -N                N records before the end
  time:T            the first record at or after T: milliseconds since 1970 or RFC 3339`,
		Example: `  millrace consume greetings
  millrace consume orders --from time:2026-01-31T12:00:00Z --format json --count 10
  millrace consume orders --follow --from end
  millrace consume orders --group billing --follow`,
		Args: oneTopic,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.consume(cmd.Context(), args[0], &f)
		},
	}
	f.client.add(cmd)
	f.group.add(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.format, "format", "f", "lines", "lines or json")
	flags.StringVarP(&f.from, "from", "o", "start", "start, end, an offset, -N before the end, or time:T")
	flags.Int64VarP(&f.count, "count", "n", 0, "stop after so many records; 0: no limit")
	flags.Int32SliceVarP(&f.partitions, "partition", "p", nil, "partition to read; all if not given; repeatable")
	flags.BoolVar(&f.follow, "follow", false, "wait for more at the end")
	flags.BoolVar(&f.committed, "read-committed", false, "leave out records of transactions that are open or aborted")
	flags.StringVarP(&f.keySeparator, "key-separator", "K", "", "print key and separator before each value")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print no progress")
	return cmd
}

// start is where --from begins.
type start struct {
	kind   startKind
	number int64 // offset, records before the end, or milliseconds
}

type startKind int

const (
	fromStart startKind = iota
	fromEnd
	fromOffset
	fromBeforeEnd
	fromTime
)

func parseStart(text string) (start, error) {
	switch {
	case text == "start":
		return start{kind: fromStart}, nil
	case text == "end":
		return start{kind: fromEnd}, nil
	case strings.HasPrefix(text, "time:"):
		t, err := parseTime(strings.TrimPrefix(text, "time:"))
		if err != nil {
			return start{}, usagef("--from: %w", err)
		}
		return start{kind: fromTime, number: t.UnixMilli()}, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return start{}, usagef("--from %q is none of start, end, an offset, -N, time:T", text)
	}
	if n < 0 || strings.HasPrefix(text, "-") {
		return start{kind: fromBeforeEnd, number: -n}, nil
	}
	return start{kind: fromOffset, number: n}, nil
}

func (f *consumeFlags) check() (start, error) {
	if f.format != "lines" && f.format != "json" {
		return start{}, usagef("--format %q is neither lines nor json", f.format)
	}
	if f.format == "json" && f.keySeparator != "" {
		return start{}, usagef("--key-separator is for --format lines")
	}
	if f.count < 0 {
		return start{}, usagef("--count %d must be 0 or more", f.count)
	}
	for _, p := range f.partitions {
		if p < 0 {
			return start{}, usagef("--partition %d must be 0 or more", p)
		}
	}
	from, err := parseStart(f.from)
	if err != nil {
		return from, err
	}
	return from, f.group.check(f, from)
}

func (a *App) consume(parent context.Context, topic string, f *consumeFlags) error {
	from, err := f.check()
	if err != nil {
		return err
	}
	opts := []kgo.Opt{kgo.KeepControlRecords(), kgo.KeepRetryableFetchErrors(), kgo.FetchMaxWait(500 * time.Millisecond)}
	if f.committed {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if f.group.id != "" {
		return a.consumeInGroup(parent, topic, f, from, opts)
	}
	ctx, stop := interruptible(parent)
	defer stop()
	client, err := f.client.client(ctx, append(opts, kgo.ConsumeResetOffset(kgo.NoResetOffset()))...)
	if err != nil {
		return err
	}
	defer client.Close()
	starts, ends, err := f.bounds(ctx, kadm.NewClient(client), topic, from)
	if err != nil {
		return err
	}
	c := a.newConsumption(topic, client, f, starts, ends)
	assigned := map[int32]kgo.Offset{}
	for p, at := range starts {
		if !f.follow && at >= ends[p] {
			delete(ends, p) // nothing to read there
			continue
		}
		assigned[p] = kgo.NewOffset().At(at)
	}
	if len(assigned) == 0 {
		return nil
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: assigned})
	return a.print(ctx, c, f)
}

func (a *App) newConsumption(topic string, client *kgo.Client, f *consumeFlags, starts, ends map[int32]int64) *consumption {
	c := &consumption{topic: topic, client: client, ends: ends, follow: f.follow, left: f.count,
		patience: newPatience(topic, f.client.timeout, starts), out: bufio.NewWriterSize(a.Out, 1<<16)}
	c.write = c.writeLine(f.keySeparator)
	if f.format == "json" {
		c.write = c.writeJSON()
	}
	return c
}

// print runs c to its end.
func (a *App) print(ctx context.Context, c *consumption, f *consumeFlags) error {
	// Records that run over the screen are their own progress.
	c.progress = startProgress(a.Err, "consumed", a.Terminal && !a.OutTerminal && !f.quiet)
	err := c.run(ctx)
	if flushErr := c.out.Flush(); err == nil {
		err = flushErr
	}
	c.progress.finish(a.Terminal && !a.OutTerminal && !f.quiet)
	return err
}

// bounds resolves where each partition begins and, without --follow, ends.
func (f *consumeFlags) bounds(ctx context.Context, adm *kadm.Client, topic string, from start) (starts, ends map[int32]int64, err error) {
	details, err := adm.ListTopics(ctx, topic)
	if err != nil {
		return nil, nil, err
	}
	d := details[topic]
	if d.Err != nil {
		return nil, nil, explain(topic, d.Err)
	}
	for _, p := range f.partitions {
		if _, ok := d.Partitions[p]; !ok {
			return nil, nil, fmt.Errorf("topic %s has no partition %d: it has %s, numbered from 0", topic, p, count(int64(len(d.Partitions)), "partition"))
		}
	}
	first, err := adm.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, nil, err
	}
	listEnds := adm.ListEndOffsets
	if f.committed {
		listEnds = adm.ListCommittedOffsets
	}
	last, err := listEnds(ctx, topic)
	if err != nil {
		return nil, nil, err
	}
	var timed kadm.ListedOffsets
	if from.kind == fromTime {
		if timed, err = adm.ListOffsetsAfterMilli(ctx, from.number, topic); err != nil {
			return nil, nil, err
		}
	}
	starts, ends = map[int32]int64{}, map[int32]int64{}
	for p := range d.Partitions {
		if len(f.partitions) > 0 && !slices.Contains(f.partitions, p) {
			continue
		}
		low, high := first[topic][p], last[topic][p]
		if err := errors.Join(low.Err, high.Err); err != nil {
			return nil, nil, explain(topic, fmt.Errorf("partition %d: %w", p, err))
		}
		ends[p] = high.Offset
		starts[p] = from.resolve(low.Offset, high.Offset, timed[topic][p])
		if from.kind == fromOffset && (starts[p] < low.Offset || starts[p] > high.Offset) {
			return nil, nil, fmt.Errorf("topic %s partition %d has offsets %d to %d, not %d; --from start or --from end begins at its bounds, --partition leaves others out", topic, p, low.Offset, high.Offset, starts[p])
		}
	}
	return starts, ends, nil
}

func (s start) resolve(low, high int64, timed kadm.ListedOffset) int64 {
	switch s.kind {
	case fromEnd:
		return high
	case fromOffset:
		return s.number
	case fromBeforeEnd:
		return max(low, high-s.number)
	case fromTime:
		if timed.Err != nil || timed.Offset < 0 {
			return high // nothing is that young
		}
		return timed.Offset
	}
	return low
}

// consumption is one run of consume.
type consumption struct {
	topic    string
	client   *kgo.Client
	member   *membership     // nil: without a group
	ends     map[int32]int64 // partitions that are not read to their end yet
	follow   bool
	left     int64 // records still wanted; 0 at the start: all
	patience *patience
	out      *bufio.Writer
	write    func(*kgo.Record) error
	progress *progress
}

func (c *consumption) run(ctx context.Context) error {
	started := true
	for {
		if c.member != nil {
			c.client.AllowRebalance()
		}
		poll, cancel := context.WithTimeout(ctx, pollInterval)
		began := time.Now()
		fetches := c.client.PollFetches(poll)
		cancel()
		c.patience.waited += time.Since(began)
		if ctx.Err() != nil {
			if c.follow {
				return nil // an interrupt is how following ends
			}
			return errors.New("interrupted before the end")
		}
		if c.member != nil {
			var err error
			if started, err = c.member.join(c); err != nil {
				return err
			}
		}
		for iter := fetches.RecordIter(); !iter.Done(); {
			done, err := c.take(iter.Next())
			if err != nil || done {
				return err
			}
		}
		// What came in goes out before the next wait, and before an error.
		if err := c.out.Flush(); err != nil {
			return err
		}
		if c.member != nil {
			if err := c.member.commit(ctx, c.client); err != nil {
				return err
			}
		}
		if !c.follow && started && len(c.ends) == 0 {
			return nil
		}
		if err := c.fault(fetches); err != nil {
			return err
		}
	}
}

// fault returns the first error that a retry does not heal, or has not healed for too long.
func (c *consumption) fault(fetches kgo.Fetches) error {
	var fault error
	fetches.EachError(func(_ string, partition int32, err error) {
		if fault == nil && partition >= 0 {
			fault = c.patience.failed(partition, err)
		}
	})
	if fault == nil && !c.follow {
		fault = c.patience.over(c.ends)
	}
	return fault
}

// take prints one record. It returns true when no more is wanted.
func (c *consumption) take(r *kgo.Record) (done bool, err error) {
	c.patience.advance(r.Partition, r.Offset+1)
	end, unfinished := c.ends[r.Partition]
	beyond := !c.follow && (!unfinished || r.Offset >= end)
	if !c.follow && unfinished && r.Offset >= end-1 {
		delete(c.ends, r.Partition)
	}
	if beyond || r.Attrs.IsControl() {
		return false, nil
	}
	if err := c.write(r); err != nil {
		return true, err
	}
	c.progress.add(len(r.Key) + len(r.Value))
	if c.member != nil {
		c.member.printed[r.Partition] = r
	}
	if c.left > 0 {
		c.left--
		return c.left == 0, nil
	}
	return false, nil
}

func (c *consumption) writeLine(separator string) func(*kgo.Record) error {
	return func(r *kgo.Record) error {
		if separator != "" {
			c.out.Write(r.Key)
			c.out.WriteString(separator)
		}
		c.out.Write(r.Value)
		return c.out.WriteByte('\n') // carries the error of the writes before
	}
}

func (c *consumption) writeJSON() func(*kgo.Record) error {
	encoder := json.NewEncoder(c.out)
	encoder.SetEscapeHTML(false)
	return func(r *kgo.Record) error { return encoder.Encode(newJSONRecord(r)) }
}
