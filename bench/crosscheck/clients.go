package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/bench"
	"millrace/bench/peer"
)

const (
	batchRecords = 100
	// batchBytes holds so many records of 1 KB, whichever way a client counts what surrounds them.
	batchBytes = batchRecords * (recordBytes + 12)
	fetchBytes = 1 << 20
	outputMax  = 2000 // bytes of a program's output that a failure tells
)

// client is one that produces and reads.
type client struct {
	name           string
	produce, fetch way
	own            bool // it makes, verifies and deletes topics of its own
}

// rawClient is the load of bench: P1 and F1 with one reader.
func rawClient() client {
	run := func(workload string, given []string, s bench.Settings) way {
		return func(ctx context.Context, t *target) (float64, time.Duration, error) {
			s.Bytes = int64(t.records) * recordBytes
			r, err := bench.Run(ctx, bench.Options{Workload: workload, Broker: t.address, BrokerPID: t.process.PID, Given: given, Settings: s, FillBytes: s.Bytes})
			if err != nil {
				return 0, 0, err
			}
			f := r.Parts[0]
			flow := f.Produced
			if flow == nil {
				flow = f.Fetched
			}
			gigabytes := float64(flow.Records) * recordBytes / 1e9
			t.measured = &figures{flow.RecordsPerSecond, f.Broker.CPUSeconds / gigabytes, f.LoadCPU / gigabytes}
			return 0, 0, nil
		}
	}
	return client{name: "bench (P1, F1)", own: true,
		produce: run("P1", []string{"bytes", "warmup"}, bench.Settings{}),
		fetch:   run("F1", []string{"bytes", "warmup", "size", "batch", "readers"}, bench.Settings{Size: recordBytes, Batch: batchRecords, Readers: 1})}
}

// kgoClient is franz-go with its defaults, but for the size of batches and how many requests may be on their way.
func kgoClient() client {
	produce := func(ctx context.Context, t *target) (float64, time.Duration, error) {
		cl, err := kgo.NewClient(kgo.SeedBrokers(t.address), kgo.DefaultProduceTopic(t.topic), kgo.ProducerBatchCompression(kgo.NoCompression()),
			kgo.ProducerBatchMaxBytes(batchBytes), kgo.ProducerLinger(5*time.Millisecond))
		if err != nil {
			return 0, 0, err
		}
		defer cl.Close()
		value := make([]byte, recordBytes)
		var failed error // written by the client's one goroutine, read after the flush
		began, used := time.Now(), ownTime()
		for range t.records {
			cl.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
				if err != nil && failed == nil {
					failed = err
				}
			})
		}
		if err := cl.Flush(ctx); err != nil {
			return 0, 0, err
		}
		return float64(t.records) / time.Since(began).Seconds(), ownTime() - used, failed
	}
	fetch := func(ctx context.Context, t *target) (float64, time.Duration, error) {
		cl, err := kgo.NewClient(kgo.SeedBrokers(t.address), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{t.topic: {0: kgo.NewOffset().AtStart()}}),
			kgo.FetchMaxPartitionBytes(fetchBytes))
		if err != nil {
			return 0, 0, err
		}
		defer cl.Close()
		began, used := time.Now(), ownTime()
		for n := 0; n < t.records; {
			fetches := cl.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				return 0, 0, err
			}
			n += fetches.NumRecords()
		}
		return float64(t.records) / time.Since(began).Seconds(), ownTime() - used, nil
	}
	return client{name: "kgo", produce: produce, fetch: fetch}
}

// ownTime is the processor time of this process.
func ownTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// javaClient is Apache Kafka's ProducerPerformance and ConsumerPerformance.
func javaClient(tools *peer.JavaTools) client {
	program := func(class string, rate *regexp.Regexp, args func(t *target) []string) way {
		return func(ctx context.Context, t *target) (float64, time.Duration, error) {
			return external(ctx, rate, tools.Java, append([]string{"-Xmx512m", "-cp", tools.ClassPath, "org.apache.kafka.tools." + class}, args(t)...)...)
		}
	}
	return client{name: "Apache Kafka " + tools.Version + "'s tools",
		produce: program("ProducerPerformance", javaProduced(), func(t *target) []string {
			return []string{"--bootstrap-server", t.address, "--topic", t.topic, "--num-records", strconv.Itoa(t.records), "--record-size", strconv.Itoa(recordBytes), "--throughput", "-1",
				"--command-property", "acks=all", "batch.size=" + strconv.Itoa(batchBytes), "linger.ms=5"}
		}),
		fetch: program("ConsumerPerformance", javaConsumed(), func(t *target) []string {
			return []string{"--bootstrap-server", t.address, "--topic", t.topic, "--num-records", strconv.Itoa(t.records), "--hide-header"}
		})}
}

// javaProduced finds the rate in the last line of ProducerPerformance, javaConsumed in that of ConsumerPerformance, whose
// last column is the records a second without the time in which it joined a group.
func javaProduced() *regexp.Regexp { return regexp.MustCompile(`records sent, ([0-9.]+) records/sec`) }
func javaConsumed() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[0-9].*, ([0-9.]+)\s*$`)
}

// rdkafkaClient is librdkafka's rdkafka_performance.
func rdkafkaClient(path string) client {
	program := func(rate *regexp.Regexp, args func(t *target) []string) way {
		return func(ctx context.Context, t *target) (float64, time.Duration, error) {
			return external(ctx, rate, path, append([]string{"-b", t.address, "-t", t.topic, "-p", "0", "-c", strconv.Itoa(t.records), "-q"}, args(t)...)...)
		}
	}
	return client{name: "rdkafka_performance",
		produce: program(rdkafkaRate(), func(*target) []string {
			return []string{"-P", "-s", strconv.Itoa(recordBytes), "-a", "-1", "-X", "linger.ms=5", "-X", "batch.num.messages=" + strconv.Itoa(batchRecords), "-X", "queue.buffering.max.messages=100000"}
		}),
		fetch: program(rdkafkaRate(), func(*target) []string { return []string{"-C", "-o", "beginning"} })}
}

func rdkafkaRate() *regexp.Regexp { return regexp.MustCompile(`([0-9]+) msgs/s`) }

// external runs a program and takes the rate from its last line that tells one.
func external(ctx context.Context, rate *regexp.Regexp, path string, args ...string) (float64, time.Duration, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w\n%s", path, err, end(out))
	}
	found := rate.FindAllSubmatch(out, -1)
	if len(found) == 0 {
		return 0, 0, fmt.Errorf("%s does not tell a rate:\n%s", path, end(out))
	}
	perSecond, err := strconv.ParseFloat(string(found[len(found)-1][1]), 64)
	if err != nil {
		return 0, 0, err
	}
	return perSecond, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

func end(out []byte) string {
	return strings.TrimSpace(string(out[max(0, len(out)-outputMax):]))
}

func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("there is no %s", name)
	}
	return path, err
}
