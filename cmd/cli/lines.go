package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kgo"
)

// lineBytesMax bounds one input line: brokers take a record of about 1 MiB by default, and an input without
// line ends must not fill the memory.
const lineBytesMax = 64 << 20

// lineReader makes a record of each line: the value, or key, separator and value. The line end, LF or CR LF,
// does not belong to it; the last line needs none.
type lineReader struct {
	in        *bufio.Reader
	separator []byte // nil: no keys
	n         int
}

func newLineReader(in io.Reader, separator string) *lineReader {
	r := &lineReader{in: bufio.NewReaderSize(in, 1<<18)}
	if separator != "" {
		r.separator = []byte(separator)
	}
	return r
}

func (r *lineReader) read() (*kgo.Record, error) {
	line, err := r.line()
	if err != nil {
		return nil, err
	}
	record := &kgo.Record{Value: line, Partition: -1}
	if r.separator != nil {
		key, value, ok := bytes.Cut(line, r.separator)
		if !ok {
			return nil, fmt.Errorf("input line %d has no key separator %q", r.n, r.separator)
		}
		record.Key, record.Value = key, value
	}
	return record, nil
}

// line returns the next line in memory of its own.
func (r *lineReader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if len(line) > lineBytesMax {
				return nil, fmt.Errorf("input line %d is longer than %d bytes", r.n+1, lineBytesMax)
			}
			continue
		case err != nil && err != io.EOF:
			return nil, err
		case err == io.EOF && len(line) == 0:
			return nil, io.EOF
		}
		r.n++
		line = bytes.TrimSuffix(line, []byte("\n"))
		return notNil(bytes.TrimSuffix(line, []byte("\r"))), nil
	}
}
