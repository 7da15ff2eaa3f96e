package model

import "fmt"

// ScanAppend checks the append at the start of b whole: header, every block's checksum, every record's
// structure and headers, counts, and offsets that rise within the append's range. It is what recovery and
// inspection trust. The base offset must be expectOffset (any where that is negative; where compaction
// leaves gaps, pass -1 and compare) and the leader epoch at least minEpoch. n is the append's length.
//
// Errors: those of AppendHeader.Parse, BlockHeader.Verify and ParseRecord; ErrShort where b ends inside
// the append; ErrOrder. Where the header itself was good, h is filled although err is set.
func ScanAppend(b []byte, identity uint32, expectOffset int64, minEpoch int32) (h AppendHeader, n int, err error) {
	if err := h.Parse(b, identity); err != nil {
		return AppendHeader{}, 0, err
	}
	if expectOffset >= 0 && h.BaseOffset != expectOffset {
		return h, 0, fmt.Errorf("%w: base offset %d instead of %d", ErrOrder, h.BaseOffset, expectOffset)
	}
	if h.LeaderEpoch < minEpoch {
		return h, 0, fmt.Errorf("%w: leader epoch %d after %d", ErrOrder, h.LeaderEpoch, minEpoch)
	}
	if uint64(h.Length) > uint64(len(b)) {
		return h, 0, ErrShort
	}
	if err := scanBlocks(b[:h.Length], &h); err != nil {
		return h, 0, fmt.Errorf("append at offset %d: %w", h.BaseOffset, err)
	}
	return h, int(h.Length), nil
}

func scanBlocks(b []byte, h *AppendHeader) error {
	next, records := h.BaseOffset, uint32(0)
	pos := HeaderSize
	for i := uint32(0); i < h.BlockCount; i++ {
		var block BlockHeader
		if err := block.Verify(b[pos:], h.Identity); err != nil {
			return fmt.Errorf("block %d at %d: %w", i, pos, err)
		}
		if int64(block.Back) != int64(pos) || block.First != (i == 0) || block.Last != (i == h.BlockCount-1) {
			return fmt.Errorf("block %d at %d: %w: not this append's", i, pos, ErrMalformed)
		}
		var err error
		next, err = scanRecords(b[pos+BlockHeaderSize:pos+block.Size()], block.Count, next, h.LastOffset)
		if err != nil {
			return fmt.Errorf("block %d at %d: %w", i, pos, err)
		}
		records += block.Count
		pos += block.Size()
	}
	if pos != len(b) || records != h.RecordCount {
		return fmt.Errorf("%w: %d records in %d bytes", ErrMalformed, records, pos)
	}
	return nil
}

// scanRecords checks that b holds exactly count records with rising offsets in [next, last] and returns
// the offset after the last.
func scanRecords(b []byte, count uint32, next, last int64) (int64, error) {
	var r Record
	for ; count > 0; count-- {
		n, err := ParseRecord(b, &r)
		if err != nil {
			return 0, err
		}
		if r.Offset < next || r.Offset > last {
			return 0, r.malformed("offset out of order")
		}
		if r.Headers != nil && CheckHeaders(r.Headers) != nil {
			return 0, r.malformed("headers")
		}
		next = r.Offset + 1
		b = b[n:]
	}
	if len(b) != 0 {
		return 0, fmt.Errorf("%w: %d bytes after the last record", ErrMalformed, len(b))
	}
	return next, nil
}
