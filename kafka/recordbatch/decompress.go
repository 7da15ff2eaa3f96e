package recordbatch

import "millrace/perf"

type decompressors struct{}

type scratch struct {
	pool   *perf.Pool
	charge func(int64) bool
}

func (s *scratch) release() {}

func (d *Decoder) decompress() error { return refuse(ErrUnsupportedCodec, "not yet") }
