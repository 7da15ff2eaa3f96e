package disktest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"millrace/diskio"
)

// OpenFunc returns a file system and a directory in it that is empty. It closes the file system when the
// test ends.
type OpenFunc func(t *testing.T) (disk diskio.FS, dir string)

// RunSuite checks that the file systems of open keep the contract of diskio.
func RunSuite(t *testing.T, open OpenFunc) {
	cases := []struct {
		name string
		run  func(t *testing.T, disk diskio.FS, dir string)
	}{
		{"Names", suiteNames},
		{"Lock", suiteLock},
		{"WriteBatch", suiteWriteBatch},
		{"WriteOrder", suiteWriteOrder},
		{"WriteErrors", suiteWriteErrors},
		{"LargeBatch", suiteLargeBatch},
		{"ManyBuffers", suiteManyBuffers},
		{"Sync", suiteSync},
		{"Concurrent", suiteConcurrent},
		{"Preallocate", suitePreallocate},
		{"Mapping", suiteMapping},
		{"MappingGrows", suiteMappingGrows},
		{"MappingBeyondEnd", suiteMappingBeyondEnd},
		{"Closed", suiteClosed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			disk, dir := open(t)
			c.run(t, disk, dir)
		})
	}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

func create(t testing.TB, disk diskio.FS, dir, name string) diskio.File {
	t.Helper()
	f, err := disk.Create(filepath.Join(dir, name))
	noError(t, err)
	return f
}

func wantContent(t testing.TB, f diskio.File, want []byte) {
	t.Helper()
	size, err := f.Size()
	noError(t, err)
	if size != int64(len(want)) {
		t.Fatalf("%s holds %d bytes, want %d", f.Name(), size, len(want))
	}
	got := make([]byte, size)
	n, err := f.ReadAt(got, 0)
	noError(t, err)
	if n != len(want) || !bytes.Equal(got, want) {
		t.Fatalf("%s holds other bytes than were written", f.Name())
	}
}

func wantWritten(t testing.TB, ops []diskio.WriteOp) {
	t.Helper()
	for i := range ops {
		if ops[i].Err != nil {
			t.Fatalf("op %d: %v", i, ops[i].Err)
		}
	}
}

func pattern(random *rand.Rand, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

func suiteNames(t *testing.T, disk diskio.FS, dir string) {
	path := func(name string) string { return filepath.Join(dir, name) }
	noError(t, disk.MkdirAll(path("a/b/c")))
	noError(t, disk.MkdirAll(path("a/b")))
	f := create(t, disk, dir, "a/b/file")
	if f.Name() != path("a/b/file") {
		t.Errorf("name is %q", f.Name())
	}
	_, err := disk.Create(path("a/b/file"))
	wantError(t, err, fs.ErrExist)
	_, err = disk.Open(path("a/b/none"))
	wantError(t, err, fs.ErrNotExist)
	_, err = disk.OpenReadOnly(path("none/file"))
	wantError(t, err, fs.ErrNotExist)
	_, err = disk.Size(path("none"))
	wantError(t, err, fs.ErrNotExist)
	wantError(t, disk.SyncDir(path("none")), fs.ErrNotExist)
	wantError(t, disk.Rename(path("none"), path("other")), fs.ErrNotExist)
	_, err = f.WriteAt([]byte("hello"), 0)
	noError(t, err)
	noError(t, f.Close())

	size, err := disk.Size(path("a/b/file"))
	noError(t, err)
	if size != 5 {
		t.Errorf("size is %d", size)
	}
	other := create(t, disk, dir, "a/b/another")
	noError(t, other.Close())
	names, err := disk.List(path("a/b"))
	noError(t, err)
	if !slices.Equal(names, []string{"another", "c", "file"}) {
		t.Errorf("listed %q", names)
	}
	noError(t, disk.SyncDir(path("a/b")))
	noError(t, disk.Rename(path("a/b/file"), path("a/b/another"))) // replaces
	f, err = disk.OpenReadOnly(path("a/b/another"))
	noError(t, err)
	wantContent(t, f, []byte("hello"))
	if _, err = f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("a file opened for reading was written")
	}
	noError(t, f.Close())

	if disk.Remove(path("a/b")) == nil {
		t.Error("a directory with entries was removed")
	}
	noError(t, disk.Remove(path("a/b/another")))
	wantError(t, disk.Remove(path("a/b/another")), fs.ErrNotExist)
	noError(t, disk.Remove(path("a/b/c")))
	noError(t, disk.RemoveAll(path("a")))
	noError(t, disk.RemoveAll(path("a")))
	names, err = disk.List(dir)
	noError(t, err)
	if len(names) != 0 {
		t.Errorf("left over: %q", names)
	}
	free, err := disk.Free(dir)
	noError(t, err)
	if free <= 0 {
		t.Errorf("free is %d", free)
	}
}

func suiteLock(t *testing.T, disk diskio.FS, dir string) {
	path := filepath.Join(dir, "lock")
	first, err := disk.Lock(path)
	noError(t, err)
	_, err = disk.Lock(path)
	wantError(t, err, diskio.ErrLocked)
	noError(t, first.Close())
	second, err := disk.Lock(path)
	noError(t, err)
	noError(t, second.Close())
}

func suiteWriteBatch(t *testing.T, disk diskio.FS, dir string) {
	disk.Write(nil)
	a, b := create(t, disk, dir, "a"), create(t, disk, dir, "b")
	defer func() { noError(t, a.Close()); noError(t, b.Close()) }()
	ops := []diskio.WriteOp{
		{File: a, Pos: 0, Bufs: [][]byte{[]byte("one "), nil, []byte("two")}, Err: io.EOF},
		{File: b, Pos: 2, Bufs: [][]byte{[]byte("gap")}},
		{File: a, Pos: 7, Bufs: [][]byte{[]byte(" three")}},
		{File: a, Pos: 100, Bufs: nil},
	}
	disk.Write(ops)
	wantWritten(t, ops)
	wantContent(t, a, []byte("one two three"))
	wantContent(t, b, []byte("\x00\x00gap"))
	got := make([]byte, 8)
	n, err := a.ReadAt(got, 8)
	if n != 5 || err != io.EOF || string(got[:n]) != "three" {
		t.Errorf("read %q, %v", got[:n], err)
	}
}

func suiteWriteOrder(t *testing.T, disk diskio.FS, dir string) {
	f := create(t, disk, dir, "f")
	defer func() { noError(t, f.Close()) }()
	want := make([]byte, 300)
	var ops []diskio.WriteOp
	for i := range 200 {
		b := bytes.Repeat([]byte{byte(i)}, 100)
		copy(want[i:], b)
		ops = append(ops, diskio.WriteOp{File: f, Pos: int64(i), Bufs: [][]byte{b[:40], b[40:]}})
	}
	disk.Write(ops)
	wantWritten(t, ops)
	wantContent(t, f, want[:299])
}

// foreign is a file of no file system.
type foreign struct{ diskio.File }

func suiteWriteErrors(t *testing.T, disk diskio.FS, dir string) {
	good := create(t, disk, dir, "good")
	noError(t, create(t, disk, dir, "bad").Close())
	bad, err := disk.OpenReadOnly(filepath.Join(dir, "bad"))
	noError(t, err)
	one := [][]byte{[]byte("x")}
	ops := []diskio.WriteOp{
		{File: bad, Bufs: one},
		{File: good, Bufs: one},
		{File: foreign{}, Bufs: one},
		{File: bad, Pos: 1, Bufs: one},
		{File: good, Pos: 1, Bufs: one},
	}
	disk.Write(ops)
	if ops[0].Err == nil || ops[3].Err == nil {
		t.Error("a file opened for reading was written")
	}
	wantError(t, ops[2].Err, diskio.ErrForeignFile)
	noError(t, ops[1].Err)
	noError(t, ops[4].Err)
	wantContent(t, good, []byte("xx"))
	syncs := []diskio.SyncOp{{File: good}, {File: foreign{}}}
	disk.Sync(syncs)
	noError(t, syncs[0].Err)
	wantError(t, syncs[1].Err, diskio.ErrForeignFile)
	noError(t, good.Close())
	noError(t, bad.Close())
}

func suiteLargeBatch(t *testing.T, disk diskio.FS, dir string) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	const files, rounds = 20, 40 // 800 ops: more than a ring of the suite holds
	var open []diskio.File
	want := make([][]byte, files)
	for i := range files {
		open = append(open, create(t, disk, dir, string(rune('a'+i))))
	}
	var ops []diskio.WriteOp
	for range rounds {
		for i, f := range open {
			b := pattern(random, 1+random.IntN(5000))
			ops = append(ops, diskio.WriteOp{File: f, Pos: int64(len(want[i])), Bufs: [][]byte{b}})
			want[i] = append(want[i], b...)
		}
	}
	disk.Write(ops)
	wantWritten(t, ops)
	var syncs []diskio.SyncOp
	for i, f := range open {
		wantContent(t, f, want[i])
		syncs = append(syncs, diskio.SyncOp{File: f})
	}
	disk.Sync(syncs)
	for i, f := range open {
		noError(t, syncs[i].Err)
		noError(t, f.Close())
	}
}

func suiteManyBuffers(t *testing.T, disk diskio.FS, dir string) {
	const seed = 8
	random := rand.New(rand.NewPCG(seed, seed))
	f := create(t, disk, dir, "f")
	defer func() { noError(t, f.Close()) }()
	var bufs [][]byte
	var want []byte
	for range 3000 { // more than one vectored call takes
		b := pattern(random, random.IntN(40))
		bufs, want = append(bufs, b), append(want, b...)
	}
	ops := []diskio.WriteOp{{File: f, Bufs: bufs}}
	disk.Write(ops)
	wantWritten(t, ops)
	wantContent(t, f, want)
}

func suiteSync(t *testing.T, disk diskio.FS, dir string) {
	disk.Sync(nil)
	var ops []diskio.SyncOp
	for i := range 50 {
		f := create(t, disk, dir, string(rune('A'+i)))
		_, err := f.WriteAt([]byte("bytes"), 0)
		noError(t, err)
		ops = append(ops, diskio.SyncOp{File: f, Err: io.EOF})
	}
	ops = append(ops, diskio.SyncOp{File: ops[0].File})
	disk.Sync(ops)
	for i := range ops {
		noError(t, ops[i].Err)
	}
	disk.Sync(ops[:1])
	noError(t, ops[0].Err)
	noError(t, ops[0].File.Sync())
	for i := range ops[:50] {
		noError(t, ops[i].File.Close())
	}
}

func suiteConcurrent(t *testing.T, disk diskio.FS, dir string) {
	const writers, rounds = 8, 25
	var wait sync.WaitGroup
	for w := range writers {
		a := create(t, disk, dir, string(rune('a'+w)))
		b := create(t, disk, dir, string(rune('A'+w)))
		wait.Go(func() {
			var want []byte
			for i := range rounds {
				chunk := bytes.Repeat([]byte{byte(w*rounds + i)}, 1000+i)
				pos := int64(len(want))
				ops := []diskio.WriteOp{
					{File: a, Pos: pos, Bufs: [][]byte{chunk[:100], chunk[100:]}},
					{File: b, Pos: pos, Bufs: [][]byte{chunk}},
				}
				disk.Write(ops)
				syncs := []diskio.SyncOp{{File: a}, {File: b}}
				disk.Sync(syncs)
				if err := errors.Join(ops[0].Err, ops[1].Err, syncs[0].Err, syncs[1].Err); err != nil {
					t.Error(err)
				}
				want = append(want, chunk...)
			}
			for _, f := range []diskio.File{a, b} {
				got := make([]byte, len(want))
				if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: error %v, or other bytes than were written", f.Name(), err)
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
}

func suitePreallocate(t *testing.T, disk diskio.FS, dir string) {
	f := create(t, disk, dir, "f")
	defer func() { noError(t, f.Close()) }()
	before, err := disk.Free(dir)
	noError(t, err)
	if err := f.Preallocate(0, 1<<20); err != nil {
		t.Logf("not preallocated: %v", err)
	}
	if size, err := f.Size(); err != nil || size != 0 {
		t.Fatalf("preallocation made the size %d, error %v", size, err)
	}
	_, err = f.WriteAt([]byte("hello"), 0)
	noError(t, err)
	noError(t, f.ReleasePreallocated())
	wantContent(t, f, []byte("hello"))
	if before <= 0 {
		t.Errorf("free was %d", before)
	}
	noError(t, f.Preallocate(0, 0))
}

// reader sums bytes of a mapping under Guard.
type reader struct {
	bytes []byte
	sum   int
}

// RunGuarded implements diskio.Guarded.
func (r *reader) RunGuarded() error {
	r.sum = 0
	for _, c := range r.bytes {
		r.sum += int(c)
	}
	return nil
}

func suiteMapping(t *testing.T, disk diskio.FS, dir string) {
	const seed = 9
	content := pattern(rand.New(rand.NewPCG(seed, seed)), 300_000)
	f := create(t, disk, dir, "f")
	_, err := f.WriteAt(content, 0)
	noError(t, err)
	empty, err := f.Map(0)
	noError(t, err)
	if empty.Len() != 0 || len(empty.Slice(0, 0)) != 0 || !empty.Resident(0, 0) || empty.Load(0, 0) != nil {
		t.Error("an empty mapping is not empty")
	}
	noError(t, empty.Unmap())

	m, err := f.Map(int64(len(content)))
	noError(t, err)
	if m.Len() != int64(len(content)) {
		t.Errorf("mapped %d bytes", m.Len())
	}
	for range 3 {
		if err := m.Load(0, m.Len()); err != nil {
			t.Fatal(err)
		}
	}
	if !m.Resident(0, m.Len()) || !m.Resident(5000, 5001) || !m.Resident(7, 7) {
		t.Error("loaded, but not resident")
	}
	got := m.Slice(1000, 250_000)
	if !bytes.Equal(got, content[1000:250_000]) || cap(got) != len(got) {
		t.Error("mapped bytes differ")
	}
	r := reader{bytes: got}
	noError(t, diskio.Guard(&r))
	noError(t, f.Close())
	if !m.Resident(0, m.Len()) || !bytes.Equal(m.Slice(0, 10), content[:10]) {
		t.Error("the mapping did not outlive Close of the file")
	}
	noError(t, m.Unmap())
	noError(t, m.Unmap())
}

func suiteMappingGrows(t *testing.T, disk diskio.FS, dir string) {
	f := create(t, disk, dir, "f")
	defer func() { noError(t, f.Close()) }()
	m, err := f.Map(1 << 20)
	noError(t, err)
	defer func() { noError(t, m.Unmap()) }()
	// A reader of what is published goes on while the appender writes beyond it.
	const rounds, chunk = 50, 777
	published := make(chan int64, rounds)
	var wait sync.WaitGroup
	wait.Go(func() {
		for end := range published {
			for i, c := range m.Slice(0, end) {
				if c != byte(i/chunk+1) {
					t.Errorf("byte %d is %d", i, c)
					return
				}
			}
		}
	})
	for i := range rounds {
		pos := int64(i * chunk)
		ops := []diskio.WriteOp{{File: f, Pos: pos, Bufs: [][]byte{bytes.Repeat([]byte{byte(i + 1)}, chunk)}}}
		disk.Write(ops)
		wantWritten(t, ops)
		published <- pos + chunk
	}
	close(published)
	wait.Wait()
}

func suiteMappingBeyondEnd(t *testing.T, disk diskio.FS, dir string) {
	f := create(t, disk, dir, "f")
	defer func() { noError(t, f.Close()) }()
	_, err := f.WriteAt(make([]byte, 5000), 0)
	noError(t, err)
	m, err := f.Map(1 << 20)
	noError(t, err)
	defer func() { noError(t, m.Unmap()) }()
	if m.Resident(0, 1<<20) || m.Resident(1<<19, 1<<19+1) {
		t.Error("bytes beyond the end are resident")
	}
	wantError(t, m.Load(0, 1<<20), io.EOF)
	wantError(t, m.Load(1<<19, 1<<20), io.EOF)
	wantError(t, m.Load(0, 1<<20+1), fs.ErrInvalid)
	wantError(t, m.Load(-1, 5), fs.ErrInvalid)
	noError(t, m.Load(0, 5000))
	if !m.Resident(0, 5000) {
		t.Error("loaded, but not resident")
	}
}

func suiteClosed(t *testing.T, disk diskio.FS, dir string) {
	f := create(t, disk, dir, "f")
	noError(t, f.Close())
	wantError(t, f.Close(), fs.ErrClosed)
	_, err := f.WriteAt([]byte("x"), 0)
	wantError(t, err, fs.ErrClosed)
	_, err = f.ReadAt(make([]byte, 1), 0)
	wantError(t, err, fs.ErrClosed)
	wantError(t, f.Sync(), fs.ErrClosed)
	_, err = f.Map(10)
	wantError(t, err, fs.ErrClosed)
	ops := []diskio.WriteOp{{File: f, Bufs: [][]byte{[]byte("x")}}}
	disk.Write(ops)
	wantError(t, ops[0].Err, fs.ErrClosed)
	syncs := []diskio.SyncOp{{File: f}, {File: f}}
	disk.Sync(syncs)
	wantError(t, syncs[0].Err, fs.ErrClosed)
}
