package broker

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Files that keep the data directories of a broker together. The first directory lists the further ones, and each of
// these tells whose it is: a disk that is not mounted is not taken for a new one, and no partition begins anew because
// its directory was left out of the settings or stands elsewhere.
const (
	furtherName  = "directories.json" // in the first
	identityName = "directory.json"   // in each further one
)

// furtherFile is what the first directory says.
type furtherFile struct {
	Version int            `json:"version"`
	Further []furtherEntry `json:"further"`
}

type furtherEntry struct {
	ID   string `json:"id"`
	Path string `json:"path"` // where it was last
}

// identityFile is what a further directory says. Only the id decides; the rest is for people.
type identityFile struct {
	Version int    `json:"version"`
	ID      string `json:"id"`
	NodeID  int32  `json:"node_id"`
	First   string `json:"first_directory"`
}

// Role is what a data directory is to its broker.
type Role struct {
	// First is the path of the first directory as a further one knows it; empty: this is the first one.
	First string
	// NodeID is the broker's, as a further directory knows it.
	NodeID int32
	// Further are the paths of the further directories as the first one knows them.
	Further []string
}

// RoleOf reads the role of a data directory, whether a broker runs on it or not. The error is fs.ErrNotExist where none
// ever has.
func RoleOf(path string) (r Role, err error) {
	if id, err := readIdentity(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return Role{First: id.First, NodeID: id.NodeID}, err
	}
	for _, name := range []string{lockName, metaName} {
		if _, err := os.Stat(filepath.Join(path, name)); err != nil {
			return r, err
		}
	}
	var list furtherFile
	if err := readJSON(filepath.Join(path, furtherName), &list); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	for _, e := range list.Further {
		r.Further = append(r.Further, e.Path)
	}
	return r, nil
}

// errMissing: a directory that is known holds nothing.
var errMissing = errors.New("it is empty, but held partitions: is its disk mounted?")

// identify finds out whose the further directories are, adds new ones to what the first knows, and refuses what cannot
// be meant. opened are those that can be read, by their place in paths; for the others the path decides. It returns
// which are known and, of these, which are to be left alone and why.
func identify(nodeID int32, paths []string, opened []bool) (known []bool, missing []error, err error) {
	first := absolute(paths[0])
	if id, err := readIdentity(first); err == nil && id.ID != "" {
		return nil, nil, fmt.Errorf("data directory %s is a further one of the broker whose first is %s: name that first in log.dirs", first, id.First)
	}
	var list furtherFile
	if err := readJSON(filepath.Join(first, furtherName), &list); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("data directory %s: %w", first, err)
	}
	before := slices.Clone(list.Further)
	known, missing = make([]bool, len(paths)), make([]error, len(paths))
	for i := 1; i < len(paths); i++ {
		path := absolute(paths[i])
		at := slices.IndexFunc(list.Further, func(e furtherEntry) bool { return e.Path == path })
		if opened[i] {
			id, empty, err := whose(path)
			if err != nil {
				return nil, nil, err
			}
			byID := slices.IndexFunc(list.Further, func(e furtherEntry) bool { return e.ID == id })
			switch {
			case id != "" && byID >= 0:
				at = byID
			case !empty:
				return nil, nil, fmt.Errorf("data directory %s holds what is not this broker's (%s in %s does not list it): give each broker directories of its own, or empty it",
					path, furtherName, first)
			case at >= 0:
				missing[i] = fmt.Errorf("%w To give up what was there remove its entry from %s", errMissing, filepath.Join(first, furtherName))
			default:
				at = len(list.Further)
				list.Further = append(list.Further, furtherEntry{ID: rand.Text()})
			}
		}
		if at < 0 {
			continue // never opened so far
		}
		known[i] = true
		list.Further[at].Path = path
	}
	if err := checkListed(list.Further, paths, first); err != nil {
		return nil, nil, err
	}
	if slices.Equal(before, list.Further) {
		return known, missing, nil
	}
	for _, e := range list.Further[len(before):] {
		if err := writeJSON(filepath.Join(e.Path, identityName), identityFile{1, e.ID, nodeID, first}); err != nil {
			return nil, nil, fmt.Errorf("data directory %s: %w", e.Path, err)
		}
	}
	list.Version = 1
	return known, missing, writeJSON(filepath.Join(first, furtherName), list)
}

// checkListed refuses a known directory that the settings leave out or name by two paths.
func checkListed(further []furtherEntry, paths []string, first string) error {
	for i, e := range further {
		if !slices.ContainsFunc(paths, func(p string) bool { return absolute(p) == e.Path }) {
			return fmt.Errorf("data directory %s belongs to this broker and is not in log.dirs, and its partitions would begin anew: put it back, "+
				"also where it cannot be read, or, to give up what is on it, remove its entry from %s", e.Path, filepath.Join(first, furtherName))
		}
		if slices.ContainsFunc(further[:i], func(o furtherEntry) bool { return o.Path == e.Path }) {
			return fmt.Errorf("data directory %s stands in the place of another one of this broker: put each back where it was", e.Path)
		}
	}
	return nil
}

// whose returns the id of a directory, "" where it has none, and whether there is nothing of a broker in it.
func whose(path string) (id string, empty bool, err error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", false, fmt.Errorf("data directory: %w", err)
	}
	empty = !slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return !slices.Contains([]string{identityName, identityName + ".new", lockName, "lost+found"}, e.Name())
	})
	identity, err := readIdentity(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", false, err
	}
	return identity.ID, empty, nil
}

func readIdentity(path string) (id identityFile, err error) {
	err = readJSON(filepath.Join(path, identityName), &id)
	return id, err
}

// absolute returns the path that does not depend on the working directory.
func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return filepath.Clean(path)
}

func readJSON(path string, into any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// writeJSON replaces the file durably.
func writeJSON(path string, content any) error {
	b, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
