package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// jsonReader reads one JSON object after the other.
type jsonReader struct {
	decoder *json.Decoder
	lines   *lineCounter
	n       int
}

func newJSONReader(in io.Reader) *jsonReader {
	lines := &lineCounter{in: in}
	d := json.NewDecoder(lines)
	d.DisallowUnknownFields()
	return &jsonReader{decoder: d, lines: lines}
}

func (r *jsonReader) read() (*kgo.Record, error) {
	r.lines.forget(r.decoder.InputOffset())
	var j jsonRecord
	err := r.decoder.Decode(&j)
	if err == io.EOF {
		return nil, io.EOF
	}
	r.n++
	at := r.decoder.InputOffset()
	if err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			at = syntax.Offset
		} else if errors.Is(err, io.ErrUnexpectedEOF) {
			at = r.lines.read
		}
		err = explainJSON(err)
	}
	var record *kgo.Record
	if err == nil {
		record, err = j.record()
	}
	if err != nil {
		return nil, fmt.Errorf("input record %d, line %d: %w", r.n, r.lines.line(at), err)
	}
	return record, nil
}

const jsonExample = `a record is an object like {"key":"k","value":"v"}`

// explainJSON says what was expected in place of the decoder's view of it.
func explainJSON(err error) error {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the input ends within the record")
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON (%w); %s", syntax, jsonExample)
	case errors.As(err, &mismatch) && mismatch.Field == "":
		return fmt.Errorf("%s is no record; %s", article(mismatch.Value), jsonExample)
	case errors.As(err, &mismatch):
		return fmt.Errorf("field %s is %s and must be %s", mismatch.Field, article(mismatch.Value), expected(mismatch))
	case strings.HasPrefix(err.Error(), "json: unknown field "):
		return fmt.Errorf("%s; those of a record are key, key_base64, value, value_base64, headers, partition and timestamp", strings.TrimPrefix(err.Error(), "json: "))
	}
	return err
}

// article makes "a number" of "number"; "number 1.5" stays as it is.
func article(value string) string {
	switch value {
	case "number", "string", "bool":
		return "a " + value
	case "object", "array":
		return "an " + value
	}
	return value
}

func expected(mismatch *json.UnmarshalTypeError) string {
	switch mismatch.Type.Kind() {
	case reflect.String:
		if name := mismatch.Field[strings.LastIndexByte(mismatch.Field, '.')+1:]; name == "value" || mismatch.Field == "key" {
			return "a string or null"
		}
		return "a string"
	case reflect.Int32:
		return "a whole number up to 2147483647"
	case reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return `an array of {"key":"h","value":"v"}`
	}
	return `an object like {"key":"h","value":"v"}`
}

// lineCounter knows on which line a byte of its input stands.
type lineCounter struct {
	in        io.Reader
	read      int64
	forgotten int     // line ends before those that are kept
	ends      []int64 // positions after line ends
}

func (c *lineCounter) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	for rest := p[:n]; ; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			break
		}
		rest = rest[i+1:]
		c.ends = append(c.ends, c.read+int64(n-len(rest)))
	}
	c.read += int64(n)
	return n, err
}

// before counts the kept line ends before a position.
func (c *lineCounter) before(position int64) int {
	n := 0
	for n < len(c.ends) && c.ends[n] < position {
		n++
	}
	return n
}

// forget frees what is only needed for positions before this one.
func (c *lineCounter) forget(position int64) {
	n := c.before(position)
	c.forgotten += n
	c.ends = c.ends[:copy(c.ends, c.ends[n:])]
}

// line returns the number of the line, from 1, that the byte before the position stands on.
func (c *lineCounter) line(position int64) int { return c.forgotten + c.before(position) + 1 }
