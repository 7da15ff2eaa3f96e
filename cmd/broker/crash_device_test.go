package broker_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"millrace/cmd/broker/brokertest"
)

// device is a file system of its own on a loop device, whose power can be cut.
type device struct {
	t           *testing.T
	kind        string
	image, path string
}

// The ioctl that ext4 and XFS share: the file system takes nothing more from now on, and with noLogFlush not even what
// it holds already goes to the device.
const (
	ioctlShutdown = 0x8004587d // _IOR('X', 125, __u32)
	noLogFlush    = 2
)

func newDevice(t *testing.T, kind string) *device {
	t.Helper()
	base := t.TempDir()
	d := &device{t: t, kind: kind, image: filepath.Join(base, "image"), path: filepath.Join(base, "mounted")}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, 16<<30); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(d.path, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs."+kind, "-q", d.image).CombinedOutput(); err != nil {
		t.Skipf("mkfs.%s: %v %s", kind, err, out)
	}
	if out, err := d.mount(); err != nil {
		t.Skipf("mount: %v %s", err, out)
	}
	t.Cleanup(func() { exec.Command("umount", "-l", d.path).Run() })
	return d
}

func (d *device) mount() ([]byte, error) {
	return exec.Command("mount", "-t", d.kind, "-o", "loop", d.image, d.path).CombinedOutput()
}

// cut drops all that has not been synced: what the kernel holds of it never gets to the device.
func (d *device) cut() {
	d.t.Helper()
	fd, err := unix.Open(d.path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.IoctlSetPointerInt(fd, ioctlShutdown, noLogFlush); err != nil {
		d.t.Fatal("shut the file system down: ", err)
	}
}

// comeBack mounts what is on the device. Nothing may have it open, though the kernel may take a moment to let go.
func (d *device) comeBack() {
	d.t.Helper()
	brokertest.Eventually(d.t, "unmounted", func() bool { return unix.Unmount(d.path, 0) == nil })
	if out, err := d.mount(); err != nil {
		d.t.Fatalf("mount: %v %s", err, out)
	}
}

// TestDevicePowerCuts runs what TestCrashes does on ext4 and XFS, with every record synced before it is
// acknowledged, and takes the file system away instead, from under the broker in the midst of its writes or after it was
// killed: what was not synced is lost, which a file of the test's own proves, and nothing else is. It needs the right to
// mount. The broker is frozen before: an fsync that is under way while ext4 gives its journal up may succeed and keep nothing,
// and an answer that follows is one that nobody gets who sits on the same power.
func TestDevicePowerCuts(t *testing.T) {
	if brokertest.Outside() != "" {
		t.Skip("needs a file system of its own")
	}
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			d := newDevice(t, kind)
			rounds := crashRounds(t, 2)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rounds)*time.Minute+2*time.Minute)
			defer cancel()
			b, err := brokertest.Launch(d.path, crashSettings("log.flush.interval.messages", "1"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(b.End)
			m := newCrashMachine(t, ctx, b)
			defer m.stop()
			unsynced := filepath.Join(d.path, "unsynced")
			for round := range rounds {
				m.goOn()
				if round%2 == 1 {
					b.Kill(t)
				} else {
					m.freeze()
				}
				content := bytes.Repeat(fmt.Appendf(nil, "lost %d ", round), 1<<17)
				if err := os.WriteFile(unsynced, content, 0o600); err != nil {
					t.Fatal(err)
				}
				d.cut()
				b.Kill(t)
				due := m.due()
				d.comeBack()
				if got, _ := os.ReadFile(unsynced); bytes.Equal(got, content) {
					t.Error("what was not synced is there: this cut proves nothing")
				}
				b.Restart(t)
				m.check(due)
			}
			m.finish()
			t.Logf("%d power cuts on %s", rounds, kind)
		})
	}
}
