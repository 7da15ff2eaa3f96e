package diskio_test

import (
	"errors"
	"hash/crc32"
	"io"
	"os"
	"testing"

	"millrace/diskio"
)

// work is a function under Guard.
type work func() error

// RunGuarded implements diskio.Guarded.
func (w work) RunGuarded() error { return w() }

// K10: another process cuts a mapped file; the reader gets an error and the process lives.
func TestK10CutFileIsAnError(t *testing.T) {
	disk, dir := openBackend(t, diskio.Options{})
	path := dir + "/f"
	f, err := disk.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	const size = 1 << 20
	if _, err := f.WriteAt(make([]byte, size), 0); err != nil {
		t.Fatal(err)
	}
	m, err := f.Map(size)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Unmap() }()
	b := m.Slice(0, size)
	table := crc32.MakeTable(crc32.Castagnoli)
	sum, scratch := byte(0), make([]byte, size)
	readers := map[string]work{
		"loop": func() error {
			for _, c := range b {
				sum += c
			}
			return nil
		},
		"copy":     func() error { copy(scratch, b); return nil },
		"checksum": func() error { sum += byte(crc32.Update(0, table, b)); return nil },
	}
	for name, w := range readers {
		if err := diskio.Guard(w); err != nil {
			t.Errorf("%s before the cut: %v", name, err)
		}
	}
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	for name, w := range readers {
		if err := diskio.Guard(w); !errors.Is(err, diskio.ErrFault) {
			t.Errorf("%s after the cut: %v", name, err)
		}
	}
	if err := m.Load(0, size); !errors.Is(err, io.EOF) {
		t.Errorf("load of what was cut off: %v", err)
	}
	if err := m.Load(0, 4096); err != nil {
		t.Errorf("what is left: %v", err)
	}
}

func TestGuardPassesErrorsAndOtherPanics(t *testing.T) {
	if err := diskio.Guard(work(func() error { return os.ErrInvalid })); err != os.ErrInvalid {
		t.Errorf("got %v", err)
	}
	for name, w := range map[string]work{
		"text": func() error { panic("a bug") },
		"nil":  func() error { var p *int; *p = 1; return nil },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: the panic did not go through", name)
				}
			}()
			_ = diskio.Guard(w)
		}()
	}
}
