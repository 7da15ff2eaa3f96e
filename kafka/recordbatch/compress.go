package recordbatch

import "millrace/engine/model"

// Compressor encodes like AppendBatches, with compressed batches.
type Compressor struct{}

func (c *Compressor) block(e *encoding, dst, records []byte, last bool, res *Result) ([]byte, error) {
	return dst, model.ErrBodyCodec
}
