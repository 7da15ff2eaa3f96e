package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"millrace/diskio"
	"millrace/engine/model"
)

const shardFileName = "shard.json"

// shardFile names the topic of a shard's directory for people and offline tools, and keeps a second copy of
// the log start, which nothing in the segments tells, for the case that the index store is lost.
type shardFile struct {
	Version   int    `json:"version"`
	TopicID   string `json:"topic_id"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Identity  uint32 `json:"identity"`
	LogStart  int64  `json:"log_start_offset"`
}

// fileContent returns what the shard's file says.
func (sh *Shard) fileContent(logStart int64) []byte {
	sh.mu.Lock()
	content := shardFile{1, sh.id.Topic.String(), sh.topicName, sh.id.Partition, sh.identity, logStart}
	sh.mu.Unlock()
	b, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		panic(err)
	}
	return append(b, '\n')
}

// makeShardFile writes the file of a new directory.
func (sh *Shard) makeShardFile() error {
	path := filepath.Join(sh.dir, shardFileName)
	f, err := sh.store.fs.Create(path)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		_, err = f.WriteAt(sh.fileContent(sh.logStart.Load()), 0)
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w: %w", path, ErrStorage, err)
	}
	return nil
}

// writeShardFile replaces the shard's file; durably where that is asked for.
func (sh *Shard) writeShardFile(logStart int64, durable bool) error {
	path := filepath.Join(sh.dir, shardFileName)
	if err := replaceFile(sh.store.fs, path, sh.fileContent(logStart), durable); err != nil {
		return fmt.Errorf("write %s: %w: %w", path, ErrStorage, err)
	}
	return nil
}

func replaceFile(fsys diskio.FS, path string, b []byte, durable bool) error {
	temporary := path + ".new"
	if err := fsys.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := fsys.Create(temporary)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil && durable {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = fsys.Rename(temporary, path)
	}
	if err == nil && durable {
		err = fsys.SyncDir(filepath.Dir(path))
	}
	return err
}

// readShardFile reads the file of a shard's directory.
func readShardFile(fsys diskio.FS, dir string, id model.ShardID) (content shardFile, err error) {
	path := filepath.Join(dir, shardFileName)
	b, err := readFile(fsys, path, 1<<20)
	if err != nil {
		return content, fmt.Errorf("read %s: %w", path, err)
	}
	if err := json.Unmarshal(b, &content); err != nil {
		return content, fmt.Errorf("read %s: %w: %w", path, ErrCorrupt, err)
	}
	if content.TopicID != id.Topic.String() || content.Partition != id.Partition || content.LogStart < 0 {
		return content, fmt.Errorf("read %s: %w: names topic %s partition %d", path, ErrCorrupt,
			content.TopicID, content.Partition)
	}
	return content, nil
}

// readFile reads a whole file of at most max bytes.
func readFile(fsys diskio.FS, path string, max int64) ([]byte, error) {
	f, err := fsys.OpenReadOnly(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > max {
		return nil, fmt.Errorf("%w: %d bytes", ErrCorrupt, size)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && size > 0 {
		return nil, err
	}
	return b, nil
}
