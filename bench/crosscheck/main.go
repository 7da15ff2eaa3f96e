package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/bench"
	"millrace/bench/compare"
	"millrace/bench/peer"
	"millrace/bench/proc"
	"millrace/perf"
)

const (
	recordBytes = 1024 // of a record's value
	recordsMin  = 1000
	recordsMax  = 100_000_000
	roundsMax   = 100
	topicName   = "crosscheck"
)

// options are those of the command line.
type options struct {
	binary, dir, rdkafka string
	records, rounds      int
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("crosscheck", flag.ContinueOnError)
	flags.StringVar(&o.binary, "binary", "bin/millrace", "the broker")
	flags.StringVar(&o.dir, "dir", "", "directory below which the data is made and removed; the system's for temporary files if not given")
	flags.StringVar(&o.rdkafka, "rdkafka", "rdkafka_performance", "librdkafka's load program")
	flags.IntVar(&o.records, "records", 500_000, "records of 1 KB that each client produces and reads in each round")
	flags.IntVar(&o.rounds, "rounds", 3, "rounds, in each of which every client has a broker of its own")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case len(flags.Args()) > 0:
		return o, fmt.Errorf("it takes no argument %q", flags.Arg(0))
	case o.records < recordsMin || o.records > recordsMax:
		return o, fmt.Errorf("-records %d is not within %d and %d", o.records, recordsMin, recordsMax)
	case o.rounds < 1 || o.rounds > roundsMax:
		return o, fmt.Errorf("-rounds %d is not within 1 and %d", o.rounds, roundsMax)
	}
	return o, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "crosscheck:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	clients, missing := clientsOf(ctx, o)
	for _, m := range missing {
		fmt.Println("left out:", m)
	}
	all, err := perf.AllowedCPUs()
	if err != nil {
		return err
	}
	placement := compare.Pinned
	if len(all) < 2 {
		placement = compare.Unpinned
	}
	broker, load := compare.CPUs(placement, all)
	if err := compare.Place(load, all); err != nil {
		return err
	}
	work, err := os.MkdirTemp(o.dir, "millrace-crosscheck-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	table := newTable(clients)
	for round := range o.rounds {
		for i := range clients {
			c := (i + round) % len(clients) // none is always the first
			began := time.Now()
			produced, fetched, err := measure(ctx, o, clients[c], work, broker)
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, clients[c].name, err)
			}
			table.add(c, produced, fetched)
			fmt.Fprintf(os.Stderr, "round %d of %d: %s took %v\n", round+1, o.rounds, clients[c].name, time.Since(began).Round(time.Second))
		}
	}
	host := compare.HostOf(work)
	fmt.Printf("%d records of %d bytes to 1 partition, acks=all, batches of about 100; %s, %d CPUs, Linux %s, %s; %s\n\n",
		o.records, recordBytes, host.CPU, runtime.NumCPU(), host.Kernel, host.FileSystem, placement)
	return table.print(os.Stdout)
}

// figures are what one client did one way.
type figures struct {
	perSecond float64 // records, as the client itself tells
	brokerCPU float64 // seconds a GB of values
	clientCPU float64
}

// target is a broker to load.
type target struct {
	address string
	topic   string
	records int
	process *proc.Process
	// measured is what a client that accounts for itself found: it also fills and verifies, which is not to count.
	measured *figures
}

// way is one direction of one client. It returns the records a second that the client tells of and its own processor
// time.
type way func(ctx context.Context, t *target) (perSecond float64, client time.Duration, err error)

// measure gives a client a broker of its own, lets it produce, holds that all is there, and lets it read.
func measure(ctx context.Context, o options, c client, work string, cpus []int) (produced, fetched figures, err error) {
	dir, err := os.MkdirTemp(work, "start-")
	if err != nil {
		return produced, fetched, err
	}
	defer os.RemoveAll(dir)
	spec := peer.Millrace("millrace", o.binary, "", []string{"group.initial.rebalance.delay.ms=0"})
	p, err := spec.Start(ctx, dir, cpus)
	if err != nil {
		return produced, fetched, err
	}
	defer p.Kill()
	t := &target{address: p.Address, topic: topicName, records: o.records}
	if t.process, err = proc.Open(p.PID); err != nil {
		return produced, fetched, err
	}
	blame := func(err error) error {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		return p.Blame(err)
	}
	if err = t.make(ctx); err != nil {
		return produced, fetched, blame(err)
	}
	pages, err := bench.NewWarmPages()
	if err != nil {
		return produced, fetched, err
	}
	defer pages.Close()
	if err = pages.Hold(ctx, int64(o.records)*recordBytes); err != nil {
		return produced, fetched, blame(err)
	}
	if produced, err = t.account(ctx, c.produce); err == nil && !c.own {
		err = t.whole(ctx)
	}
	if err != nil {
		return produced, fetched, blame(fmt.Errorf("producing: %w", err))
	}
	if fetched, err = t.account(ctx, c.fetch); err != nil {
		return produced, fetched, blame(fmt.Errorf("fetching: %w", err))
	}
	return produced, fetched, nil
}

// account measures what the broker's process uses while a client works.
func (t *target) account(ctx context.Context, w way) (figures, error) {
	before, err := t.process.Usage()
	if err != nil {
		return figures{}, err
	}
	perSecond, client, err := w(ctx, t)
	if err != nil {
		return figures{}, err
	}
	if m := t.measured; m != nil {
		t.measured = nil
		return *m, nil
	}
	after, err := t.process.Usage()
	if err != nil {
		return figures{}, err
	}
	gigabytes := float64(t.records) * recordBytes / 1e9
	return figures{perSecond, (after.CPU - before.CPU).Seconds() / gigabytes, client.Seconds() / gigabytes}, nil
}

// make creates the topic.
func (t *target) make(ctx context.Context) error {
	return t.admin(func(adm *kadm.Client) error {
		_, err := adm.CreateTopic(ctx, 1, 1, nil, t.topic)
		return err
	})
}

// whole holds that the topic has exactly what was to be produced.
func (t *target) whole(ctx context.Context) error {
	return t.admin(func(adm *kadm.Client) error {
		ends, err := adm.ListEndOffsets(ctx, t.topic)
		if err != nil {
			return err
		}
		if end, ok := ends.Lookup(t.topic, 0); !ok || end.Err != nil || end.Offset != int64(t.records) {
			return fmt.Errorf("the partition ends at %d (%v); %d records were produced", end.Offset, end.Err, t.records)
		}
		return nil
	})
}

func (t *target) admin(f func(adm *kadm.Client) error) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(t.address))
	if err != nil {
		return err
	}
	defer c.Close()
	return f(kadm.NewClient(c))
}

// clientsOf returns the clients that can be had, and why others cannot.
func clientsOf(ctx context.Context, o options) (clients []client, missing []string) {
	clients = []client{rawClient(), kgoClient()}
	tools, err := peer.Tools(ctx, func(line string) { fmt.Fprintln(os.Stderr, line) })
	if err != nil {
		missing = append(missing, "Apache Kafka's tools: "+strings.SplitN(err.Error(), "\n", 2)[0])
	} else {
		clients = append(clients, javaClient(tools))
	}
	program, err := findProgram(o.rdkafka)
	if err != nil {
		missing = append(missing, "rdkafka_performance: "+err.Error()+"; name it with -rdkafka")
	} else {
		clients = append(clients, rdkafkaClient(program))
	}
	return clients, missing
}

// findProgram returns the path of a program in PATH or at a path.
func findProgram(name string) (string, error) {
	path, err := lookPath(name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}
