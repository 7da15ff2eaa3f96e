package meta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/perf"
)

// stateCopy is the state of the machines in a plain file beside the directory, for the case that this is damaged. It is
// written at snapshots and clean stops, and at a start that finds more than it has.
//
//	crc u32 of what follows, version u8, index u64, term u64, length of the identity u8, identity, state
type stateCopy struct {
	id          identity
	index, term uint64
	state       []byte
}

const (
	copySuffix      = ".copy"
	copyVersion     = 1
	copyHeaderBytes = 4 + 1 + 8 + 8 + 1
)

func (c *stateCopy) append(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, copyVersion)
	dst = binary.BigEndian.AppendUint64(dst, c.index)
	dst = binary.BigEndian.AppendUint64(dst, c.term)
	id := c.id.append(nil)
	dst = append(append(dst, byte(len(id))), id...)
	dst = append(dst, c.state...)
	binary.BigEndian.PutUint32(dst[at:], perf.UpdateCRC32C(0, dst[at+4:]))
	return dst
}

func parseCopy(b []byte) (c *stateCopy, err error) {
	if len(b) < copyHeaderBytes || binary.BigEndian.Uint32(b) != perf.UpdateCRC32C(0, b[4:]) {
		return nil, errors.New("it is damaged")
	}
	end := copyHeaderBytes + int(b[copyHeaderBytes-1])
	if b[4] != copyVersion || end > len(b) {
		return nil, fmt.Errorf("version %d is unknown", b[4])
	}
	c = &stateCopy{index: binary.BigEndian.Uint64(b[5:]), term: binary.BigEndian.Uint64(b[13:]), state: b[end:]}
	c.id, err = parseIdentity(b[copyHeaderBytes:end])
	return c, err
}

// readCopy returns the copy of a directory, nil where there is none or it is no good, which is only logged: it is a
// second source.
func readCopy(o *Options) *stateCopy {
	b, err := readFile(o.FS, o.Dir+copySuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var c *stateCopy
	if err == nil {
		c, err = parseCopy(b)
	}
	if err != nil {
		o.Logger.Warn("copy of the cluster state cannot be read", "path", o.Dir+copySuffix, "err", err)
		return nil
	}
	return c
}

func readFile(fsys vfs.FS, path string) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// write replaces the copy, durably.
func (c *stateCopy) write(o *Options) error {
	path := o.Dir + copySuffix
	f, err := o.FS.Create(path+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(c.append(nil))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := o.FS.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(o.FS, o.FS.PathDir(path))
}

func syncDir(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// saveCopy writes the copy as of what is applied. A failure costs the copy only.
func (l *loop) saveCopy() {
	o := &l.node.options
	state, err := appendSnapshot(make([]byte, 0, l.snapshotBytes), o.Machines)
	if err == nil {
		c := stateCopy{id: identity{o.NodeID, l.node.clusterID}, index: l.applied, term: l.appliedTerm, state: state}
		err = c.write(o)
	}
	if err != nil {
		o.Logger.Warn("copy of the cluster state cannot be written", "path", o.Dir+copySuffix, "err", err)
	}
}
