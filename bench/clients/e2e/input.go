package e2e

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"millrace/bench/clients/recfile"
)

// Input is a file of records and what its consumer must report.
type Input struct {
	Path   string
	Count  int64
	Digest string
}

// bounds says how much of a source tree goes into an input: every n-th file, and so many lines in all; 0 lines is none,
// a negative number is all.
type bounds struct {
	everyFile int
	linesMax  int
}

// inputWriter writes records with one millisecond between them.
type inputWriter struct {
	out       *bufio.Writer
	digest    hash.Hash
	buf       []byte
	timestamp int64
	count     int64
}

func (w *inputWriter) add(r recfile.Record) error {
	w.timestamp++
	r.Timestamp = w.timestamp
	w.buf = recfile.Append(w.buf[:0], r)
	w.digest.Write(w.buf)
	w.count++
	_, err := w.out.Write(w.buf)
	return err
}

// BuildInput writes the records of the tree at root to path: first the edge cases, then each file as one record (key
// the path, header its mode, value its bytes), then the lines of all files as records without a key.
func BuildInput(path, root string, b bounds) (Input, error) {
	file, err := os.Create(path)
	if err != nil {
		return Input{}, err
	}
	defer file.Close()
	w := &inputWriter{out: bufio.NewWriterSize(file, 1<<20), digest: sha256.New(), timestamp: time.Now().Add(-3 * time.Hour).UnixMilli()}
	for _, r := range edges() {
		if err := w.add(r); err != nil {
			return Input{}, err
		}
	}
	seen := 0
	err = walk(root, func(name string, mode fs.FileMode, content []byte) error {
		seen++
		if seen%b.everyFile != 0 {
			return nil
		}
		header := recfile.Header{Name: "mode", Value: fmt.Appendf(nil, "%04o", mode.Perm())}
		return w.add(recfile.Record{Key: []byte(name), Value: content, Headers: []recfile.Header{header}})
	})
	lines := b.linesMax
	if err == nil && lines != 0 {
		err = walk(root, func(_ string, _ fs.FileMode, content []byte) error {
			for line := range bytes.Lines(content) {
				if lines == 0 {
					return fs.SkipAll
				}
				lines--
				if err := w.add(recfile.Record{Value: bytes.TrimSuffix(line, []byte("\n"))}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err == nil {
		err = w.out.Flush()
	}
	return Input{Path: path, Count: w.count, Digest: hex.EncodeToString(w.digest.Sum(nil))}, err
}

func walk(root string, f func(name string, mode fs.FileMode, content []byte) error) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return f(name, info.Mode(), content)
	})
}

// edges are records that differ only in what careless code takes for the same. Names of headers are text, and equal
// ones stand together, since not every client can say otherwise.
func edges() []recfile.Record {
	empty, value := []byte{}, []byte("value")
	return []recfile.Record{
		{Key: nil, Value: value},
		{Key: empty, Value: value},
		{Key: []byte("null value"), Value: nil},
		{Key: []byte("empty value"), Value: empty},
		{Key: empty, Value: empty},
		{Key: []byte{0, 0xff, 0xfe}, Value: []byte{0xc3, 0x28, 0}},
		{Value: value, Headers: []recfile.Header{{Name: "twice", Value: []byte("1")}, {Name: "twice", Value: []byte("2")}, {Name: "twice", Value: []byte("1")}, {Name: "once", Value: empty}}},
		{Value: value, Headers: []recfile.Header{{Name: "bytes", Value: []byte{0, 0xff}}, {Name: "ünïcode", Value: []byte("é")}}},
	}
}
