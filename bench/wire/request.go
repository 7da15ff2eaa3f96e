package wire

import "encoding/binary"

const (
	keyProduce     = 0
	keyFetch       = 1
	keyApiVersions = 18

	versionProduce = 7
	versionFetch   = 11

	atCorrelation = 8 // in a frame, after its length, API key and version

	clientID = "millrace-bench"
)

// SetCorrelation writes the number that the answer of the frame will carry.
func SetCorrelation(frame []byte, id int32) {
	binary.BigEndian.PutUint32(frame[atCorrelation:], uint32(id))
}

// appendHeader begins a frame; finish writes its length.
func appendHeader(dst []byte, key, version int16) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(key))
	dst = binary.BigEndian.AppendUint16(dst, uint16(version))
	dst = binary.BigEndian.AppendUint32(dst, 0)
	return appendString(dst, clientID)
}

func finish(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

func appendString(dst []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...)
}

// Produce is a whole produce request, encoded once, with one batch for each of its partitions.
type Produce struct {
	Frame      []byte
	Partitions []int32
	batchAt    []int // where in Frame each partition's batch begins
	batchBytes int
}

// NewProduce makes a request that brings the same batch to each partition. acks is -1, 0 or 1.
func NewProduce(topic string, partitions []int32, batch []byte, acks int16, timeoutMs int32) *Produce {
	p := &Produce{Partitions: partitions, batchBytes: len(batch)}
	f := appendHeader(make([]byte, 0, len(partitions)*(len(batch)+8)+len(topic)+64), keyProduce, versionProduce)
	f = binary.BigEndian.AppendUint16(f, 0xffff) // no transactional id
	f = binary.BigEndian.AppendUint16(f, uint16(acks))
	f = binary.BigEndian.AppendUint32(f, uint32(timeoutMs))
	f = binary.BigEndian.AppendUint32(f, 1)
	f = appendString(f, topic)
	f = binary.BigEndian.AppendUint32(f, uint32(len(partitions)))
	for _, partition := range partitions {
		f = binary.BigEndian.AppendUint32(f, uint32(partition))
		f = binary.BigEndian.AppendUint32(f, uint32(len(batch)))
		p.batchAt = append(p.batchAt, len(f))
		f = append(f, batch...)
	}
	p.Frame = finish(f)
	return p
}

// Batch returns the bytes of the i-th partition's batch, in the frame.
func (p *Produce) Batch(i int) []byte { return p.Frame[p.batchAt[i] : p.batchAt[i]+p.batchBytes] }

// Position is a partition and the offset from which it is fetched.
type Position struct {
	Partition int32
	Offset    int64
}

// FetchLimits bound one fetch.
type FetchLimits struct {
	WaitMs            int32 // how long the broker may wait for MinBytes
	MinBytes          int32
	MaxBytes          int32
	MaxPartitionBytes int32
}

// AppendFetch appends a fetch request outside of any session.
func AppendFetch(dst []byte, correlation int32, topic string, from []Position, l FetchLimits) []byte {
	start := len(dst)
	f := appendHeader(dst, keyFetch, versionFetch)
	f = binary.BigEndian.AppendUint32(f, 0xffffffff) // no replica
	f = binary.BigEndian.AppendUint32(f, uint32(l.WaitMs))
	f = binary.BigEndian.AppendUint32(f, uint32(l.MinBytes))
	f = binary.BigEndian.AppendUint32(f, uint32(l.MaxBytes))
	f = append(f, 0)                                 // read uncommitted
	f = binary.BigEndian.AppendUint32(f, 0)          // session
	f = binary.BigEndian.AppendUint32(f, 0xffffffff) // and none wanted
	f = binary.BigEndian.AppendUint32(f, 1)
	f = appendString(f, topic)
	f = binary.BigEndian.AppendUint32(f, uint32(len(from)))
	for _, p := range from {
		f = binary.BigEndian.AppendUint32(f, uint32(p.Partition))
		f = binary.BigEndian.AppendUint32(f, 0xffffffff) // leader epoch not known
		f = binary.BigEndian.AppendUint64(f, uint64(p.Offset))
		f = binary.BigEndian.AppendUint64(f, 0xffffffffffffffff) // log start offset: followers only
		f = binary.BigEndian.AppendUint32(f, uint32(l.MaxPartitionBytes))
	}
	f = binary.BigEndian.AppendUint32(f, 0) // forgotten topics
	f = appendString(f, "")                 // rack
	finish(f[start:])
	SetCorrelation(f[start:], correlation)
	return f
}

// AppendApiVersions appends the request that a client begins with.
func AppendApiVersions(dst []byte) []byte {
	start := len(dst)
	f := appendHeader(dst, keyApiVersions, 0)
	finish(f[start:])
	return f
}
