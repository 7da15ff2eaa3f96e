package diskio

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// newTestFile makes an empty file in a directory of its own.
func newTestFile(t testing.TB, fs FS) File {
	t.Helper()
	f, err := fs.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// content reads a whole file.
func content(t testing.TB, f File) []byte {
	t.Helper()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPosixContinuesShortAndInterruptedWrites(t *testing.T) {
	p := newPosixFS("test")
	calls := 0
	p.call = func(fd int, iov []unix.Iovec, pos int64) (int64, error) {
		calls++
		if calls%3 == 0 {
			return 0, unix.EINTR
		}
		first := iov[:1:1]
		first[0].SetLen(int(min(first[0].Len, 3)))
		return pwritev(fd, first, pos)
	}
	f := newTestFile(t, p)
	ops := []WriteOp{{File: f, Bufs: [][]byte{[]byte("hello"), nil, []byte(" "), []byte("world of bytes")}}}
	p.Write(ops)
	if ops[0].Err != nil {
		t.Fatal(ops[0].Err)
	}
	if got := content(t, f); string(got) != "hello world of bytes" {
		t.Fatalf("file holds %q", got)
	}
	if calls < 8 {
		t.Fatalf("only %d calls", calls)
	}
}

func TestPosixWritesMoreBuffersThanOneCallTakes(t *testing.T) {
	p := newPosixFS("test")
	f := newTestFile(t, p)
	var bufs [][]byte
	var want []byte
	for i := range 2*vectorEntriesMax + 7 {
		b := bytes.Repeat([]byte{byte(i)}, 1+i%5)
		bufs, want = append(bufs, b), append(want, b...)
	}
	ops := []WriteOp{{File: f, Bufs: bufs}}
	p.Write(ops)
	if ops[0].Err != nil || !bytes.Equal(content(t, f), want) {
		t.Fatalf("error %v, or bytes differ", ops[0].Err)
	}
}

func TestPosixFailedOpStopsLaterOpsOfItsFileOnly(t *testing.T) {
	p := newPosixFS("test")
	a, b := newTestFile(t, p), newTestFile(t, p)
	p.call = func(fd int, iov []unix.Iovec, pos int64) (int64, error) {
		if fd == a.(*file).fd.get() {
			return 0, unix.ENOSPC
		}
		return pwritev(fd, iov, pos)
	}
	one := [][]byte{[]byte("x")}
	ops := []WriteOp{{File: a, Bufs: one}, {File: b, Bufs: one}, {File: a, Pos: 1, Bufs: one}, {File: b, Pos: 1, Bufs: one}}
	p.Write(ops)
	for i, want := range []error{unix.ENOSPC, nil, unix.ENOSPC, nil} {
		if !errors.Is(ops[i].Err, want) {
			t.Errorf("op %d: %v, want %v", i, ops[i].Err, want)
		}
	}
}
