package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// resetFlags are the options of reset-offsets.
type resetFlags struct {
	client                     clientFlags
	topics                     []string
	allTopics, execute, asJSON bool
	earliest, latest, current  bool
	datetime, fromFile         string
	ago                        time.Duration
	shift, offset              int64
	fromMilli                  int64                    // of --to-datetime and --by-duration
	fileOffsets                map[topicPartition]int64 // of --from-file
	target                     string                   // the flag that says where to
}

// resetRow is one partition of a reset. Before is null where nothing was committed.
type resetRow struct {
	topicPartition
	Before *int64 `json:"before"`
	After  int64  `json:"after"`
	Change *int64 `json:"change"`
	Note   string `json:"note,omitempty"`
}

const noTarget = "say where to with one of --to-earliest, --to-latest, --to-current, --to-offset, --to-datetime, --by-duration, --shift-by, --from-file"

func (a *App) groupResetCommand() *cobra.Command {
	var f resetFlags
	cmd := &cobra.Command{
		Use:   "reset-offsets GROUP",
		Short: "Move what a group has committed; without --execute only show it",
		Long: `Move the committed offsets of a group that has no members. Without --execute nothing changes: what would be
committed is shown beside what is. An offset outside of the log moves to the log's nearer end, and a note says so.`,
		Example: `  millrace group reset-offsets billing --topic orders --to-earliest
  millrace group reset-offsets billing --topic orders:0,1 --shift-by -100 --execute`,
		Args: oneGroup,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return f.client.admin(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				return a.resetOffsets(ctx, adm, args[0], &f)
			})
		},
	}
	f.client.add(cmd)
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.topics, "topic", "t", nil, "TOPIC, or TOPIC:P,P for some partitions; repeatable")
	flags.BoolVar(&f.allTopics, "all-topics", false, "all partitions that the group has committed for")
	flags.BoolVar(&f.earliest, "to-earliest", false, "to the oldest record")
	flags.BoolVar(&f.latest, "to-latest", false, "to the end")
	flags.BoolVar(&f.current, "to-current", false, "to what is committed; to the end where nothing is")
	flags.Int64Var(&f.offset, "to-offset", 0, "to this offset")
	flags.StringVar(&f.datetime, "to-datetime", "", "to the first record at or after this time: milliseconds since 1970 or RFC 3339")
	flags.DurationVar(&f.ago, "by-duration", 0, "to the first record that is at most this old")
	flags.Int64Var(&f.shift, "shift-by", 0, "forward by so many records from what is committed; backward if negative")
	flags.StringVar(&f.fromFile, "from-file", "", "to the offsets in this file: lines of TOPIC,PARTITION,OFFSET")
	flags.BoolVar(&f.execute, "execute", false, "do it")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON")
	return cmd
}

func (f *resetFlags) check(cmd *cobra.Command) error {
	for _, name := range []string{"to-earliest", "to-latest", "to-current", "to-offset", "to-datetime", "by-duration", "shift-by", "from-file"} {
		if !cmd.Flags().Changed(name) {
			continue
		}
		if f.target != "" {
			return usagef("--%s and --%s are two targets: give one", f.target, name)
		}
		f.target = name
	}
	if err := refuseEmpty(cmd, "to-datetime", "from-file"); err != nil {
		return err
	}
	scoped := len(f.topics) > 0 || f.allTopics
	switch {
	case f.target == "":
		return usagef("%s", noTarget)
	case f.target == "from-file" && scoped:
		return usagef("--from-file names the partitions: leave --topic and --all-topics out")
	case f.target != "from-file" && (len(f.topics) > 0) == f.allTopics:
		return usagef("say which: either --topic TOPIC[:P,P] or --all-topics")
	case f.target == "by-duration" && f.ago < 0:
		return usagef("--by-duration %v must be 0 or more", f.ago)
	case f.target == "by-duration":
		f.fromMilli = time.Now().Add(-f.ago).UnixMilli()
	case f.target == "to-datetime":
		t, err := parseTime(f.datetime)
		if err != nil {
			return usagef("--to-datetime: %w", err)
		}
		f.fromMilli = t.UnixMilli()
	case f.target == "from-file":
		return f.readFile()
	}
	return nil
}

func (f *resetFlags) readFile() error {
	text, err := os.ReadFile(f.fromFile)
	if err != nil {
		return err
	}
	f.fileOffsets = map[topicPartition]int64{}
	for i, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		fields := strings.Split(line, ",")
		if len(fields) != 3 {
			return fmt.Errorf("%s line %d: %q is not TOPIC,PARTITION,OFFSET", f.fromFile, i+1, line)
		}
		p, err1 := strconv.ParseInt(fields[1], 10, 32)
		offset, err2 := strconv.ParseInt(fields[2], 10, 64)
		if err1 != nil || err2 != nil || p < 0 || offset < 0 {
			return fmt.Errorf("%s line %d: %q is not TOPIC,PARTITION,OFFSET", f.fromFile, i+1, line)
		}
		at := topicPartition{fields[0], int32(p)}
		if before, twice := f.fileOffsets[at]; twice && before != offset {
			return fmt.Errorf("%s line %d: %s partition %d has offset %d in an earlier line", f.fromFile, i+1, at.Topic, at.Partition, before)
		}
		f.fileOffsets[at] = offset
	}
	return nil
}

func (a *App) resetOffsets(ctx context.Context, adm *kadm.Client, group string, f *resetFlags) error {
	// A group that is not there yet may be given offsets: it begins with them.
	view, err := viewGroup(ctx, adm, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return err
	}
	if len(view.Members) > 0 {
		return explainGroup(group, kerr.NonEmptyGroup)
	}
	rows, err := f.plan(ctx, adm, group)
	if err != nil {
		return err
	}
	if f.execute && len(rows) > 0 {
		offsets := kadm.Offsets{}
		for _, r := range rows {
			offsets.Add(kadm.Offset{Topic: r.Topic, Partition: r.Partition, At: r.After, LeaderEpoch: -1})
		}
		if err := adm.CommitAllOffsets(ctx, group, offsets); err != nil {
			return explainGroup(group, err)
		}
	}
	if f.asJSON {
		return a.printJSON(map[string]any{"group": group, "executed": f.execute, "partitions": rows})
	}
	if err := a.table(func(w *tabwriter.Writer) {
		fmt.Fprintln(w, "TOPIC\tPARTITION\tBEFORE\tAFTER\tCHANGE\tNOTE")
		for _, r := range rows {
			fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%s\n", r.Topic, r.Partition, number(r.Before), r.After, number(r.Change), r.Note)
		}
	}); err != nil {
		return err
	}
	if !f.execute {
		fmt.Fprintln(a.Err, "nothing is changed yet: --execute does it")
	}
	return nil
}

// plan resolves what each partition is moved to.
func (f *resetFlags) plan(ctx context.Context, adm *kadm.Client, group string) ([]resetRow, error) {
	commits, err := adm.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, explainGroup(group, err)
	}
	set, err := f.scope(ctx, adm, group, commits)
	if err != nil || len(set) == 0 {
		return []resetRow{}, err
	}
	names := set.Topics()
	low, err := adm.ListStartOffsets(ctx, names...)
	if err != nil {
		return nil, explainGroup(group, err)
	}
	high, err := adm.ListEndOffsets(ctx, names...)
	if err != nil {
		return nil, explainGroup(group, err)
	}
	var timed kadm.ListedOffsets
	if f.target == "to-datetime" || f.target == "by-duration" {
		if timed, err = adm.ListOffsetsAfterMilli(ctx, f.fromMilli, names...); err != nil {
			return nil, explainGroup(group, err)
		}
	}
	rows := []resetRow{}
	for _, tp := range partitionsOf(set) {
		first, last := low[tp.Topic][tp.Partition], high[tp.Topic][tp.Partition]
		if err := errors.Join(first.Err, last.Err); err != nil {
			return nil, explain(tp.Topic, fmt.Errorf("partition %d: %w", tp.Partition, err))
		}
		row := resetRow{topicPartition: tp}
		if c, ok := commits.Lookup(tp.Topic, tp.Partition); ok && c.Err == nil && c.At >= 0 {
			row.Before = &c.At
		}
		if f.target == "shift-by" && row.Before == nil {
			return nil, fmt.Errorf("group %s has committed nothing for %s:%d that --shift-by could begin at; give --to-earliest, --to-latest or --to-offset", group, tp.Topic, tp.Partition)
		}
		wanted := f.wanted(row, first.Offset, last.Offset, timed[tp.Topic][tp.Partition])
		row.After = min(max(wanted, first.Offset), last.Offset)
		if row.After != wanted {
			row.Note = fmt.Sprintf("%d is outside of the log, %d to %d", wanted, first.Offset, last.Offset)
		}
		if row.Before != nil {
			change := row.After - *row.Before
			row.Change = &change
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// scope is the partitions that are meant.
func (f *resetFlags) scope(ctx context.Context, adm *kadm.Client, group string, commits kadm.OffsetResponses) (kadm.TopicsSet, error) {
	set := kadm.TopicsSet{}
	switch {
	case f.target == "from-file":
		for tp := range f.fileOffsets {
			set.Add(tp.Topic, tp.Partition)
		}
	case f.allTopics:
		commits.Each(func(o kadm.OffsetResponse) { set.Add(o.Topic, o.Partition) })
	default:
		wanted, err := parseGroupTopics(f.topics)
		if err != nil {
			return nil, err
		}
		return groupPartitions(ctx, adm, group, wanted)
	}
	return set, nil
}

func (f *resetFlags) wanted(row resetRow, low, high int64, timed kadm.ListedOffset) int64 {
	switch f.target {
	case "to-earliest":
		return low
	case "to-offset":
		return f.offset
	case "shift-by":
		return *row.Before + f.shift
	case "from-file":
		return f.fileOffsets[row.topicPartition]
	case "to-current":
		if row.Before != nil {
			return *row.Before
		}
	case "to-datetime", "by-duration":
		if timed.Err == nil && timed.Offset >= 0 {
			return timed.Offset
		}
	}
	return high
}
