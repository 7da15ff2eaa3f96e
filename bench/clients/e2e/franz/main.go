// Command franz is the franz-go client of the end-to-end run; e2e/doc.go says what its arguments mean.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/bench/clients/recfile"
)

func main() {
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "franz produce ADDR TOPIC FILE CODEC | franz consume ADDR TOPIC COUNT -")
		os.Exit(2)
	}
	var err error
	if os.Args[1] == "produce" {
		err = produce(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	} else {
		err = consume(os.Args[2], os.Args[3], os.Args[4])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "franz:", err)
		os.Exit(1)
	}
}

func produce(addr, topic, path, codec string) error {
	opts := []kgo.Opt{kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchMaxBytes(16 << 20), kgo.BrokerMaxWriteBytes(64 << 20)}
	switch codec {
	case "none":
		opts = append(opts, kgo.ProducerBatchCompression(kgo.NoCompression()))
	case "gzip":
		opts = append(opts, kgo.ProducerBatchCompression(kgo.GzipCompression()))
	case "snappy":
		opts = append(opts, kgo.ProducerBatchCompression(kgo.SnappyCompression()))
	case "lz4":
		opts = append(opts, kgo.ProducerBatchCompression(kgo.Lz4Compression()))
	case "zstd":
		opts = append(opts, kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var failed atomic.Pointer[error]
	var acked atomic.Int64
	in := bufio.NewReaderSize(file, 1<<20)
	for {
		rec, err := recfile.Read(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		out := &kgo.Record{Key: rec.Key, Value: rec.Value, Timestamp: time.UnixMilli(rec.Timestamp)}
		for _, h := range rec.Headers {
			out.Headers = append(out.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
		client.Produce(context.Background(), out, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
				return
			}
			acked.Add(1)
		})
	}
	if err := client.Flush(context.Background()); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	fmt.Printf("%d\n", acked.Load())
	return nil
}

func consume(addr, topic, countText string) error {
	count, err := strconv.ParseInt(countText, 10, 64)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.FetchMaxPartitionBytes(16<<20),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	digest := sha256.New()
	var buf []byte
	for next := int64(0); next < count; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("after %d records: %w", next, err)
		}
		var bad error
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset != next && bad == nil {
				bad = fmt.Errorf("offset %d where %d belongs", r.Offset, next)
			}
			next++
			rec := recfile.Record{Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
			for _, h := range r.Headers {
				rec.Headers = append(rec.Headers, recfile.Header{Name: h.Key, Value: h.Value})
			}
			buf = recfile.Append(buf[:0], rec)
			digest.Write(buf)
		})
		if bad != nil {
			return bad
		}
		if next > count {
			return fmt.Errorf("%d records where %d belong", next, count)
		}
	}
	fmt.Printf("%d %x\n", count, digest.Sum(nil))
	return nil
}
