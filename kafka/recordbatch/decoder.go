package recordbatch

import (
	"math"

	"millrace/engine/model"
	"millrace/perf"
)

// Limits say what a topic takes.
type Limits struct {
	// DecodedBytesMax bounds the decompressed records of a batch, also as they are stored, and
	// RecordBytesMax each of them (max.decompressed.message.bytes). Neither applies to a batch that came
	// uncompressed.
	DecodedBytesMax int64
	RecordBytesMax  int64
	// LogAppendTime gives every record the time Now; otherwise a record's own time must lie in
	// [Now-TimestampBeforeMax, Now+TimestampAfterMax], -1 excepted. All in milliseconds.
	LogAppendTime      bool
	Now                int64
	TimestampBeforeMax int64
	TimestampAfterMax  int64
	// KeyRequired refuses records without a key (cleanup.policy=compact).
	KeyRequired bool
	// AllowTransactional takes batches of transactions.
	AllowTransactional bool
}

// Decoder turns one produced batch at a time into a stored append. It belongs to one goroutine, keeps its
// decompressors, and holds pooled memory only between Open and Close. It is an engine encoder: SizeBound
// and EncodeAppend are what the engine calls.
type Decoder struct {
	pool    *perf.Pool
	charge  func(bytes int64) bool
	limits  Limits
	batch   Batch  // its Records share the caller's bytes
	records []byte // uncompressed
	scratch scratch
	codecs  decompressors
	record  model.Record
}

// NewDecoder returns a decoder that decompresses into buffers of pool. charge is asked before memory is
// taken, with the bytes to come, and told with a negative number when they were given back; false refuses
// them. A nil charge allows everything.
func NewDecoder(pool *perf.Pool, charge func(bytes int64) bool) *Decoder {
	d := &Decoder{pool: pool, charge: charge}
	d.scratch = scratch{pool: pool, charge: charge}
	return d
}

// Open takes a batch that ParseProduced accepted and decompresses it. The batch's bytes are used until
// Close. Errors: ErrUnsupportedCodec, ErrTransactional, ErrTimestamp, ErrTooLarge, ErrMemory and, for
// bytes that do not decompress, ErrInvalidRecord (which, unlike ErrCorrupt, no client sends again).
func (d *Decoder) Open(b *Batch, limits *Limits) error {
	d.Close()
	if b.Codec() > model.CodecZstd {
		return refuse(ErrUnsupportedCodec, "codec %d", b.Codec())
	}
	if b.Transactional() && !limits.AllowTransactional {
		return refuse(ErrTransactional, "producer %d", b.ProducerID)
	}
	if limits.LogAppendTime && b.LogAppendTime() {
		return refuse(ErrTimestamp, "clients may not set the timestamp type to log append time")
	}
	d.batch, d.limits = *b, *limits
	d.records = b.Records
	if b.Codec() == model.CodecNone {
		return nil
	}
	if int64(b.Count)*recordSizeMin > limits.DecodedBytesMax {
		d.Close()
		return refuse(ErrTooLarge, "%d records do not fit %d decompressed bytes", b.Count, limits.DecodedBytesMax)
	}
	if err := d.decompress(); err != nil {
		d.Close()
		return err
	}
	// Small records are larger when they are stored, so that the limit holds for that form, too.
	if int64(d.SizeBound()) > limits.DecodedBytesMax+model.HeaderSize+model.BlockHeaderSize {
		d.Close()
		return refuse(ErrTooLarge, "%d records take more than %d bytes", b.Count, limits.DecodedBytesMax)
	}
	if int64(b.Count)*recordSizeMin > int64(len(d.records)) {
		err := refuse(ErrInvalidRecord, "%d records in %d decompressed bytes", b.Count, len(d.records))
		d.Close()
		return err
	}
	return nil
}

// Close gives pooled memory back and forgets the batch. A closed decoder may be closed again.
func (d *Decoder) Close() {
	d.scratch.release()
	d.batch.Records, d.records = nil, nil
	d.record = model.Record{}
}

// DecodedBytes returns the size of the batch's records, uncompressed.
func (d *Decoder) DecodedBytes() int { return len(d.records) }

// Header fills h with what the open batch says: kind, flags, codec, counts, producer, sequences, base
// timestamp, and the range of offsets from 0. Leader epoch and identity are left alone. The max timestamp
// is known after EncodeAppend, which sets it in the builder's header.
func (d *Decoder) Header(h *model.AppendHeader) {
	b := &d.batch
	h.Kind, h.Flags, h.Codec = model.KindData, 0, b.Codec()
	if b.Transactional() {
		h.Flags |= model.FlagTransactional
	}
	h.BaseTimestamp, h.MaxTimestamp = b.BaseTimestamp, b.MaxTimestamp
	if d.limits.LogAppendTime {
		h.Flags |= model.FlagLogAppendTime
		h.BaseTimestamp, h.MaxTimestamp = d.limits.Now, d.limits.Now
	}
	h.RecordCount = uint32(b.Count)
	h.BaseOffset, h.LastOffset = 0, int64(b.Count-1)
	h.ProducerID, h.ProducerEpoch = b.ProducerID, b.ProducerEpoch
	h.BaseSequence = b.BaseSequence
	h.LastSequence = addSequence(b.BaseSequence, int64(b.Count-1))
	h.DeleteHorizon = 0
}

// SizeBound returns the bytes that the stored append takes at most.
func (d *Decoder) SizeBound() int {
	// Of a record's own length, attributes, offset delta and value length nothing is stored as it is: four
	// bytes at least.
	n := int(d.batch.Count)
	return model.SizeBound(n, len(d.records)-4*n)
}

// timestampRange returns the inclusive range that the limits allow.
func (l *Limits) timestampRange() (least, most int64) {
	least, most = math.MinInt64, math.MaxInt64
	if v := l.Now - l.TimestampBeforeMax; l.TimestampBeforeMax != math.MaxInt64 && v <= l.Now {
		least = v
	}
	if v := l.Now + l.TimestampAfterMax; v >= l.Now {
		most = v
	}
	return least, most
}
