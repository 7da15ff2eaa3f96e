package engine

import (
	"errors"
	"fmt"

	"millrace/diskio"
)

// Guarded is work that reads the bytes of a Span.
type Guarded = diskio.Guarded

// Guard runs work that reads the bytes of a Span: bytes that the disk cannot give, or that another process
// cut off the file, become an error of that work, ErrStorage. Other errors of the work come back as they are.
func Guard(work Guarded) error {
	err := diskio.Guard(work)
	if errors.Is(err, diskio.ErrFault) {
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
	return err
}
