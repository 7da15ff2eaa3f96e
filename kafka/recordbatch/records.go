package recordbatch

import "millrace/engine/model"

// EncodeAppend walks the records once, checks each, and adds them to the append that b has begun at
// baseOffset. It sets the base and max timestamp of b.Header. On an error the append is to be given up.
// Errors wrap ErrInvalidRecord or ErrTimestamp and name the first bad record.
func (d *Decoder) EncodeAppend(b *model.Builder, baseOffset int64) error {
	return refuse(ErrInvalidRecord, "not yet")
}
