package engine

// OffsetForTimestamp finds the first record at or after ts.
func (sh *Shard) OffsetForTimestamp(ts int64) (offset, timestamp int64, epoch int32, found bool, err error) {
	return -1, -1, -1, false, ErrStorage
}

// MaxTimestamp finds the record with the largest timestamp.
func (sh *Shard) MaxTimestamp() (offset, timestamp int64, epoch int32, found bool, err error) {
	return -1, -1, -1, false, ErrStorage
}
