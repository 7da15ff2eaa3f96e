package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"millrace/diskio"
	"millrace/engine/model"
)

// ShardInfo describes a shard's directory.
type ShardInfo struct {
	ID       model.ShardID
	Dir      string
	Topic    string // "" where its file does not tell
	LogStart int64  // as its file tells; the index store may know a higher one
	Segments int
}

// SegmentInfo describes a segment file.
type SegmentInfo struct {
	Shard      model.ShardID
	Path       string
	Number     uint64
	Generation uint32
	BaseOffset int64
	// EndOffset is the offset after the last append that was verified, Bytes the position after it; they are
	// set when the segment has been walked.
	EndOffset   int64
	Bytes       int64
	FileBytes   int64
	LeaderEpoch int32
	Created     int64 // milliseconds
	// Limit is the base offset of the next segment, at which this one ends whatever it holds; 2^63-1 in the
	// last one.
	Limit int64
}

// Damage is the first place of a segment that does not verify.
type Damage struct {
	Path     string
	Position int64
	Offset   int64 // expected there, -1 where it is not known
	Err      error
}

// Error names file, position and cause.
func (d *Damage) Error() string {
	return fmt.Sprintf("%s at %d (offset %d): %v", d.Path, d.Position, d.Offset, d.Err)
}

// Unwrap returns the cause.
func (d *Damage) Unwrap() error { return d.Err }

// Visitor is told what Inspect finds, in order of directories, segments and positions. Fields may be nil. An
// error that one returns ends the inspection; ErrSkipShard and ErrSkipSegment go on with the next. Slices in
// headers and records are valid during the call only.
type Visitor struct {
	Shard   func(*ShardInfo) error
	Segment func(*SegmentInfo) error
	Append  func(s *SegmentInfo, position int64, h *model.AppendHeader) error
	Record  func(s *SegmentInfo, h *model.AppendHeader, r *model.Record) error
	// End is called after a segment has been walked.
	End func(*SegmentInfo) error
	// Damage is called at the first damage of each segment; the rest of it is not read. An append that the
	// last segment does not hold whole is no damage where nothing tells that it once did: it was being written.
	// It is also called for shards and segments that are on record and missing, and for shards' files.
	Damage func(*Damage) error
	// Note is told what limits the inspection.
	Note func(text string) error
}

// What a Visitor may return to go on.
var (
	ErrSkipShard   = errors.New("skip this shard")
	ErrSkipSegment = errors.New("skip this segment")
)

// Inspect reads the shards of a data directory, whether a broker runs on it or not: it takes no lock and
// changes nothing. It verifies every checksum, and that what the index store has on record of segments is
// there; an index store that cannot be read is a note. It returns what the visitor returned, or why the
// directory cannot be listed; damage is the visitor's business.
func Inspect(dir string, fsys diskio.FS, v *Visitor) error {
	names, err := fsys.List(dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	in := &inspection{dir: dir, fs: fsys, visitor: v}
	if err := in.readRecords(names); err != nil {
		return err
	}
	seen := make(map[model.ShardID]bool)
	for _, name := range names {
		id, ok := parseShardName(name)
		if !ok {
			continue
		}
		seen[id] = true
		if err := in.shard(filepath.Join(dir, name), id); err != nil {
			return err
		}
	}
	return in.missingShards(seen)
}

// shard inspects one shard's directory.
func (in *inspection) shard(dir string, id model.ShardID) error {
	names, err := in.fs.List(dir)
	if err != nil {
		return in.visitor.damage(&Damage{Path: dir, Offset: -1, Err: err})
	}
	d := shardInspection{inspection: in, info: ShardInfo{ID: id, Dir: dir}, record: in.records[id]}
	d.readSegments(names)
	d.readFile()
	d.findMissing()
	d.info.Segments = len(d.segments)
	if v := in.visitor; v.Shard != nil {
		if err := v.Shard(&d.info); errors.Is(err, ErrSkipShard) {
			return nil
		} else if err != nil {
			return err
		}
	}
	for i := range d.damages {
		if err := in.visitor.damage(&d.damages[i]); err != nil {
			return err
		}
	}
	for i, s := range d.segments {
		if err := d.walk(s, i == len(d.segments)-1); errors.Is(err, ErrSkipShard) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// shardInspection is the inspection of one shard.
type shardInspection struct {
	*inspection
	info     ShardInfo
	record   *known // nil: nothing is on record
	files    map[uint64]bool
	segments []*SegmentInfo
	damages  []Damage // found before any segment is walked
}

func (d *shardInspection) found(path string, offset int64, err error) {
	d.damages = append(d.damages, Damage{Path: path, Offset: offset, Err: err})
}

// readSegments reads the headers of the segments' files.
func (d *shardInspection) readSegments(names []string) {
	id := d.info.ID
	d.files = make(map[uint64]bool)
	for number, name := range d.counting(names) {
		d.files[number] = true
		path := filepath.Join(d.info.Dir, name)
		h, err := readSegmentHeader(d.fs, path)
		if err == nil && (h.Shard != id || h.Number != number) {
			err = fmt.Errorf("%w: header is of shard %s segment %d", ErrCorrupt, h.Shard, h.Number)
		}
		if err != nil {
			d.found(path, -1, err)
			continue
		}
		d.segments = append(d.segments, &SegmentInfo{
			Shard: id, Path: path, Number: number, Generation: h.Generation, BaseOffset: h.BaseOffset,
			EndOffset: h.BaseOffset, Bytes: segmentHeaderSize, LeaderEpoch: h.LeaderEpoch, Created: h.Created,
			Limit: math.MaxInt64,
		})
	}
	d.segments = visible(d.segments)
}

// counting returns the name of each segment's file that counts: of the generation on record, else the highest.
func (d *shardInspection) counting(names []string) map[uint64]string {
	recorded := make(map[uint64]uint32)
	if d.record != nil && !d.record.damaged {
		for i := range d.record.segments {
			recorded[d.record.segments[i].number] = d.record.segments[i].generation
		}
	}
	generations, out := make(map[uint64]uint32), make(map[uint64]string)
	for _, name := range names {
		number, generation, ok := parseSegmentName(name)
		if !ok {
			continue
		}
		if counts, known := recorded[number]; known && generation != counts || generation < generations[number] {
			continue
		}
		generations[number], out[number] = generation, name
	}
	return out
}

// readFile reads the shard's file. It is made before the first segment.
func (d *shardInspection) readFile() {
	content, err := readShardFile(d.fs, d.info.Dir, d.info.ID)
	if err == nil {
		d.info.Topic, d.info.LogStart = content.Topic, content.LogStart
	} else if len(d.files) > 0 || !errors.Is(err, fs.ErrNotExist) {
		d.found(filepath.Join(d.info.Dir, shardFileName), -1, err)
	}
	if d.record != nil {
		d.info.LogStart = max(d.info.LogStart, d.record.logStart)
	}
}

// visible sorts segments and leaves out those that a later one begins before.
func visible(segments []*SegmentInfo) []*SegmentInfo {
	slices.SortFunc(segments, func(a, b *SegmentInfo) int {
		if a.Number < b.Number {
			return -1
		}
		return 1
	})
	limit := int64(math.MaxInt64)
	var out []*SegmentInfo
	for _, s := range slices.Backward(segments) {
		if s.BaseOffset < limit {
			s.Limit, limit = limit, s.BaseOffset
			out = append(out, s)
		}
	}
	slices.Reverse(out)
	return out
}

func (v *Visitor) damage(d *Damage) error {
	if v.Damage == nil {
		return nil
	}
	return v.Damage(d)
}

// walk reads one segment by plain reads.
func (d *shardInspection) walk(s *SegmentInfo, last bool) error {
	v := d.visitor
	f, err := d.fs.OpenReadOnly(s.Path)
	if err != nil {
		return v.damage(&Damage{Path: s.Path, Offset: -1, Err: err})
	}
	defer f.Close()
	if s.FileBytes, err = f.Size(); err != nil {
		return v.damage(&Damage{Path: s.Path, Offset: -1, Err: err})
	}
	if v.Segment != nil {
		if err := v.Segment(s); errors.Is(err, ErrSkipSegment) {
			return nil
		} else if err != nil {
			return err
		}
	}
	w := segmentWalk{info: s, file: f, last: last, start: d.info.LogStart, visitor: v, epoch: math.MinInt32,
		recorded: d.recordedBytes(s.Number)}
	skipped := false
	for !w.done {
		if err := w.step(); errors.Is(err, ErrSkipSegment) {
			skipped = true
			break
		} else if err != nil {
			return err
		}
	}
	if !skipped {
		if err := w.compare(); err != nil {
			return err
		}
	}
	if v.End != nil {
		return v.End(s)
	}
	return nil
}

// segmentWalk reads one append after the other.
type segmentWalk struct {
	info    *SegmentInfo
	file    diskio.File
	last    bool
	start   int64 // log start: below it a hole matters to nobody
	visitor *Visitor
	epoch   int32
	buffer  []byte
	done    bool
	damaged bool
	// recorded is the length that the segment is known to have had, 0 where nothing is.
	recorded int64
}

// compare finds out whether the segment has lost what it is known to have had.
func (w *segmentWalk) compare() error {
	s := w.info
	if w.damaged || s.Bytes >= w.recorded || s.EndOffset >= s.Limit {
		return nil
	}
	return w.broken(fmt.Errorf("%w: appends are missing", ErrCorrupt))
}

func (w *segmentWalk) step() error {
	s := w.info
	if s.EndOffset >= s.Limit || s.Bytes >= s.FileBytes {
		w.done = true
		if s.EndOffset < s.Limit && !w.last && s.Limit > w.start {
			return w.broken(fmt.Errorf("%w: offsets %d to %d are missing", ErrCorrupt, s.EndOffset, s.Limit))
		}
		return nil
	}
	head, err := w.read(s.Bytes, model.HeaderSize)
	if err != nil {
		return w.broken(err)
	}
	var h model.AppendHeader
	if err := h.Parse(head, s.Shard.Identity()); err != nil {
		return w.end(err)
	}
	if h.LastOffset >= s.Limit {
		w.done = true // cut there
		return nil
	}
	if s.Bytes+int64(h.Length) > s.FileBytes {
		w.done = true
		if w.last {
			return nil // it was being written
		}
		return w.broken(model.ErrShort)
	}
	b, err := w.read(s.Bytes, int(h.Length))
	if err != nil {
		return w.broken(err)
	}
	expect := s.EndOffset
	if h, _, err = scanAppend(b, s.Generation, s.Shard.Identity(), expect, w.epoch); err != nil {
		return w.broken(err)
	}
	if err := w.visit(&h, b); err != nil {
		return err
	}
	w.epoch = h.LeaderEpoch
	s.Bytes += int64(h.Length)
	s.EndOffset = h.LastOffset + 1
	return nil
}

// end decides whether bytes that are no append header are the end of the log or damage.
func (w *segmentWalk) end(cause error) error {
	if !w.last {
		return w.broken(cause)
	}
	for position := w.info.Bytes; position < w.info.FileBytes; {
		b, err := w.read(position, int(min(1<<20, w.info.FileBytes-position)))
		if err != nil {
			return w.broken(err)
		}
		for _, c := range b {
			if c != 0 {
				return w.broken(cause)
			}
		}
		position += int64(len(b))
	}
	w.done = true
	return nil
}

func (w *segmentWalk) broken(err error) error {
	w.done, w.damaged = true, true
	if w.info.FileBytes < w.recorded {
		err = fmt.Errorf("%w: the file has %d bytes, %d are on record", err, w.info.FileBytes, w.recorded)
	} else if w.info.Bytes < w.recorded {
		err = fmt.Errorf("%w: %d bytes are on record", err, w.recorded)
	}
	return w.visitor.damage(&Damage{Path: w.info.Path, Position: w.info.Bytes, Offset: w.info.EndOffset, Err: err})
}

func (w *segmentWalk) visit(h *model.AppendHeader, b []byte) error {
	if w.visitor.Append != nil {
		if err := w.visitor.Append(w.info, w.info.Bytes, h); err != nil {
			return err
		}
	}
	if w.visitor.Record == nil {
		return nil
	}
	for b = b[model.HeaderSize:]; len(b) > 0; {
		var block model.BlockHeader
		if err := block.Parse(b); err != nil {
			return err
		}
		for rest := b[model.BlockHeaderSize:block.Size()]; len(rest) > 0; {
			var r model.Record
			n, err := model.ParseRecord(rest, &r)
			if err != nil {
				return err
			}
			if err := w.visitor.Record(w.info, h, &r); err != nil {
				return err
			}
			rest = rest[n:]
		}
		b = b[block.Size():]
	}
	return nil
}

// read returns up to n bytes at a position, fewer at the end of the file.
func (w *segmentWalk) read(position int64, n int) ([]byte, error) {
	if cap(w.buffer) < n {
		w.buffer = make([]byte, n)
	}
	got, err := w.file.ReadAt(w.buffer[:n], position)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return w.buffer[:got], nil
}
