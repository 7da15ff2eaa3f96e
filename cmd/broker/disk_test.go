package broker_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/cmd/broker/brokertest"
)

const errKafkaStorage = 56

// TestK09FullDisk fills a small file system: writes are refused, reads go on, and when there is room again
// writes go on without a restart.
func TestK09FullDisk(t *testing.T) {
	if brokertest.Outside() != "" {
		t.Skip("needs a file system of its own")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Skip("needs the right to mount: ", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	b, err := brokertest.Launch(dir, map[string]string{"log.segment.bytes": "4194304", "log.segment.delete.delay.ms": "0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.End()
		if t.Failed() {
			t.Log(b.LogTail(3000))
		}
	})
	c := brokertest.Dial(t, b.Addr)
	victim, topic := b.NewTopic(t, 1, nil), b.NewTopic(t, 1, nil)
	value := strings.Repeat("v", 900_000)
	for range 20 {
		c.MustProduce(victim, 0, batchOf(value))
	}
	written := 0
	for ; written < 100; written++ {
		if code := c.Produce(topic, 0, batchOf(value).Encode()).ErrorCode; code != errNone {
			want(t, "code of the write that does not fit", code, errKafkaStorage)
			break
		}
	}
	t.Logf("%d records fit", written)
	want(t, "another write", c.Produce(topic, 0, batchOf(value).Encode()).ErrorCode, errKafkaStorage)
	want(t, "log end", c.LogEnd(topic, 0), int64(written))
	want(t, "reads go on", len(c.Records(topic, 0, int64(written-1))), 1)
	resp := c.Request(brokertest.DeleteTopicsRequest(victim.Name), 5).(*kmsg.DeleteTopicsResponse)
	want(t, "deleting a topic", resp.Topics[0].ErrorCode, errNone)
	began := time.Now()
	brokertest.Eventually(t, "writes go on", func() bool {
		return c.Produce(topic, 0, batchOf(value).Encode()).ErrorCode == errNone
	})
	t.Logf("writes went on after %v", time.Since(began))
	want(t, "the record after that", len(c.Records(topic, 0, int64(written))), 1)
	b.Stop(t)
	b.Restart(t)
	want(t, "log end after a restart", brokertest.Dial(t, b.Addr).LogEnd(topic, 0), int64(written+1))
}

// TestK23TwoBrokersOnOneDirectory: the second is refused and the first goes on.
func TestK23TwoBrokersOnOneDirectory(t *testing.T) {
	b := brokertest.Start(t, nil)
	if b.DataDir == "" {
		t.Skip("needs a data directory")
	}
	second, err := brokertest.Launch(filepath.Dir(b.DataDir), nil)
	if err == nil {
		second.End()
		t.Fatal("a second broker runs on the same directory")
	}
	if !strings.Contains(err.Error(), "in use by another broker") {
		t.Error(err)
	}
	brokertest.Dial(t, b.Addr).Alive()
}

// TestK17FewDescriptors runs a broker that may open 256 files, and more partitions and connections than that come.
func TestK17FewDescriptors(t *testing.T) {
	const partitions = 400
	if brokertest.Outside() != "" {
		t.Skip("needs a process of its own")
	}
	binary, err := brokertest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "few")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nulimit -n 256\nexec "+binary+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	addrs, err := brokertest.FreeAddrs(1)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(script, "serve", "--data-dir", filepath.Join(t.TempDir(), "data"), "--listen", addrs[0], "--set", "millrace.admin.listen=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	brokertest.Eventually(t, "a broker", func() bool {
		nc, err := netDial(addrs[0])
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
	b := &brokertest.Broker{Addr: addrs[0]}
	c := brokertest.Dial(t, b.Addr)
	topic := b.CreateTopic(t, "wide", partitions, nil)
	for p := range int32(partitions) {
		c.MustProduce(topic, p, batchOf("v"))
	}
	for range 300 {
		if nc, err := netDial(addrs[0]); err == nil {
			defer nc.Close()
		}
	}
	for p := range int32(partitions) {
		c.MustProduce(topic, p, batchOf("w"))
		want(t, "records", len(c.Records(topic, p, 0)), 2)
	}
}
