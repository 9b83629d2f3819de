package sqldb

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Size is a file's size in bytes, 0 when there is none.
func Size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// MakeDir makes the directory at path and those above it, for their user only,
// and syncs what names them: a database in it is durable only if its directory
// is.
func MakeDir(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	var named []string // directories that get a new entry
	for at := path; ; at = filepath.Dir(at) {
		_, err := os.Stat(at)
		if !errors.Is(err, fs.ErrNotExist) {
			break // there, or MkdirAll says what is wrong
		}
		named = append(named, filepath.Dir(at))
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	for _, dir := range named {
		if err := SyncFile(dir); err != nil {
			return err
		}
	}
	return nil
}

// SyncFile brings the file or directory at path to the medium.
func SyncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
