package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// jsonRecord is the JSON form of a record, which consume writes and produce reads. Bytes that are valid
// UTF-8 stand in key, value and the like; others in the field of the same name with _base64, and the plain
// field is left out. null is a null key or value, which differs from "". Order and duplicates of headers are
// kept. Times are milliseconds since 1970.
type jsonRecord struct {
	Topic         string       `json:"topic,omitempty"`
	Partition     *int32       `json:"partition,omitempty"`
	Offset        *int64       `json:"offset,omitempty"`
	LeaderEpoch   *int32       `json:"leader_epoch,omitempty"`
	Timestamp     *int64       `json:"timestamp,omitempty"`
	TimestampType string       `json:"timestamp_type,omitempty"`
	Key           optional     `json:"key,omitzero"`
	KeyBase64     *string      `json:"key_base64,omitempty"`
	Value         optional     `json:"value,omitzero"`
	ValueBase64   *string      `json:"value_base64,omitempty"`
	Headers       []jsonHeader `json:"headers,omitempty"`
}

type jsonHeader struct {
	Key         *string  `json:"key,omitempty"`
	KeyBase64   *string  `json:"key_base64,omitempty"`
	Value       optional `json:"value,omitzero"`
	ValueBase64 *string  `json:"value_base64,omitempty"`
}

// optional is a string that may be null or not there at all.
type optional struct {
	there, null bool
	text        string
}

func (o optional) IsZero() bool { return !o.there }

func (o optional) MarshalJSON() ([]byte, error) {
	if o.null {
		return []byte("null"), nil
	}
	// Marshal would escape <, > and &, which nobody asked for.
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(o.text)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func (o *optional) UnmarshalJSON(b []byte) error {
	o.there = true
	if string(b) == "null" {
		o.null = true
		return nil
	}
	return json.Unmarshal(b, &o.text)
}

// toText splits bytes into the two fields.
func toText(b []byte) (optional, *string) {
	switch {
	case b == nil:
		return optional{there: true, null: true}, nil
	case utf8.Valid(b):
		return optional{there: true, text: string(b)}, nil
	}
	encoded := base64.StdEncoding.EncodeToString(b)
	return optional{}, &encoded
}

// toBytes joins the two fields. nil means null or not there.
func toBytes(name string, text optional, encoded *string) ([]byte, error) {
	switch {
	case text.there && encoded != nil:
		return nil, fmt.Errorf("%s and %s_base64 are both given", name, name)
	case encoded != nil:
		b, err := base64.StdEncoding.DecodeString(*encoded)
		if err != nil {
			return nil, fmt.Errorf("%s_base64: %w", name, err)
		}
		return notNil(b), nil
	case text.there && !text.null:
		return notNil([]byte(text.text)), nil
	}
	return nil, nil
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// newJSONRecord is the form of a consumed record.
func newJSONRecord(r *kgo.Record) jsonRecord {
	timestamp := r.Timestamp.UnixMilli()
	j := jsonRecord{Topic: r.Topic, Partition: &r.Partition, Offset: &r.Offset, Timestamp: &timestamp, TimestampType: "create"}
	if r.LeaderEpoch >= 0 {
		j.LeaderEpoch = &r.LeaderEpoch
	}
	if r.Attrs.TimestampType() == 1 {
		j.TimestampType = "append"
	}
	j.Key, j.KeyBase64 = toText(r.Key)
	j.Value, j.ValueBase64 = toText(r.Value)
	for _, h := range r.Headers {
		j.Headers = append(j.Headers, newJSONHeader([]byte(h.Key), h.Value))
	}
	return j
}

func newJSONHeader(name, value []byte) jsonHeader {
	var h jsonHeader
	if utf8.Valid(name) {
		text := string(name)
		h.Key = &text
	} else {
		encoded := base64.StdEncoding.EncodeToString(name)
		h.KeyBase64 = &encoded
	}
	h.Value, h.ValueBase64 = toText(value)
	return h
}

// record is the record to produce. What only a consumed record has (topic, offset and the like) is read
// over, so that the output of consume can be produced again.
func (j *jsonRecord) record() (*kgo.Record, error) {
	r := &kgo.Record{Partition: -1}
	if !j.Value.there && j.ValueBase64 == nil {
		return nil, errors.New(`neither value nor value_base64 is given (a null value is "value":null)`)
	}
	var err error
	if r.Key, err = toBytes("key", j.Key, j.KeyBase64); err != nil {
		return nil, err
	}
	if r.Value, err = toBytes("value", j.Value, j.ValueBase64); err != nil {
		return nil, err
	}
	if j.Partition != nil {
		r.Partition = *j.Partition
	}
	if j.Timestamp != nil {
		r.Timestamp = time.UnixMilli(*j.Timestamp)
	}
	for i, h := range j.Headers {
		var header kgo.RecordHeader
		switch {
		case h.Key != nil && h.KeyBase64 != nil:
			return nil, fmt.Errorf("header %d: key and key_base64 are both given", i)
		case h.Key != nil:
			header.Key = *h.Key
		case h.KeyBase64 != nil:
			b, err := base64.StdEncoding.DecodeString(*h.KeyBase64)
			if err != nil {
				return nil, fmt.Errorf("header %d: key_base64: %w", i, err)
			}
			header.Key = string(b)
		default:
			return nil, fmt.Errorf("header %d has no key", i)
		}
		if header.Value, err = toBytes("value", h.Value, h.ValueBase64); err != nil {
			return nil, fmt.Errorf("header %d: %w", i, err)
		}
		r.Headers = append(r.Headers, header)
	}
	return r, nil
}
