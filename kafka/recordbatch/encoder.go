package recordbatch

import "millrace/engine/model"

// Input is what AppendBatches encodes. It is reused from call to call.
type Input struct {
	// Span is stored bytes that begin with an append header or, where AtBlock, with a block header whose
	// append has the header Header. They may end anywhere: what is not whole is not served.
	Span    []byte
	AtBlock bool
	// Header is the append at the start of Span where AtBlock; AppendBatches leaves the header of the append
	// that Result.Consumed lies in, when Result.AtBlock.
	Header   model.AppendHeader
	Identity uint32
	// From and UpTo bound the offsets that are served: [From, UpTo).
	From, UpTo int64
	// MaxBytes bounds what is appended. AtLeastOne serves the first record although it alone is larger.
	MaxBytes   int
	AtLeastOne bool
}

// Result is what AppendBatches did.
type Result struct {
	// NextOffset is the first offset that was not served and may exist; From where nothing was served.
	NextOffset int64
	// Consumed is the position in Span of the append or block to go on with, AtBlock tells which.
	Consumed int
	AtBlock  bool
	Records  int
}

// AppendBatches appends v2 batches of the records in [From, UpTo) to dst, one per stored block, and returns
// dst. Every block that is served is verified first; where one is damaged nothing of it leaves: what stands
// before it is served, and if that is nothing, the error is returned (model.ErrChecksum and the like). dst
// grows only where its capacity does not suffice.
//
// A batch holds records of one append only, begins at its first record's offset and is cut between records.
// Where the end of an append is served, the last offset delta reaches the append's last offset, so that
// readers pass offsets whose records compaction removed; where no record is left for that, by an empty
// batch.
func AppendBatches(dst []byte, in *Input, res *Result) ([]byte, error) {
	*res = Result{NextOffset: in.From, AtBlock: in.AtBlock}
	return dst, nil
}
