package follow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// stateFormat is the version of the state file.
const stateFormat = 1

// maxStateBytes bounds the state file: all sessions with long names, each with
// all events that may lie above its position, fit.
const maxStateBytes = 256 << 20

// ErrState marks a state file that is there and cannot be used, or that cannot
// be written.
var ErrState = errors.New("state file")

// state is the content of the state file.
type state struct {
	Format int `json:"sluice_tail"`
	// Boot is the relay's last boot id, "" if none was told.
	Boot string `json:"boot,omitempty"`
	// Alive is when a connection was there last and all was fetched.
	Alive    time.Time    `json:"alive"`
	Sessions []stateTrack `json:"sessions"`
	// Recent has the newest identities, oldest first.
	Recent []byte `json:"recent,omitempty"`
}

// stateTrack is a track in the state file.
type stateTrack struct {
	Session string      `json:"session"`
	Epoch   int64       `json:"epoch"`
	Seq     int64       `json:"seq"`
	Above   []stateSeen `json:"above,omitempty"`
}

type stateSeen struct {
	Epoch int64  `json:"epoch"`
	Seq   int64  `json:"seq"`
	ID    []byte `json:"id"`
}

// readState reads a state file. One that is not there is found = false; any
// other fault is an error, since to begin anew would repeat or lose events
// without a word.
func readState(path string) (s state, found bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err != nil {
		return s, false, fmt.Errorf("%w: %w", ErrState, err)
	}
	defer func() { _ = f.Close() }() // only read from
	text, err := io.ReadAll(io.LimitReader(f, maxStateBytes+1))
	if err == nil && len(text) > maxStateBytes {
		err = fmt.Errorf("longer than %d bytes", maxStateBytes)
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return s, false, fmt.Errorf("%w %s: %w; move it away to begin anew", ErrState, path, err)
	}
	return s, true, nil
}

// check checks what the types do not.
func (s *state) check() error {
	if s.Format != stateFormat {
		return fmt.Errorf("format %d, want %d", s.Format, stateFormat)
	}
	if len(s.Recent)%identityBytes != 0 || len(s.Sessions) > maxSessions {
		return errors.New("impossible length")
	}
	names := make(map[string]struct{}, len(s.Sessions))
	for _, t := range s.Sessions {
		names[t.Session] = struct{}{}
		if t.Session == "" || t.Epoch < 0 || t.Seq < -1 || len(t.Above) > maxAbove {
			return fmt.Errorf("impossible position %q:%d:%d", t.Session, t.Epoch, t.Seq)
		}
		for _, a := range t.Above {
			if len(a.ID) != identityBytes {
				return errors.New("impossible identity")
			}
		}
	}
	if len(names) < len(s.Sessions) {
		return errors.New("a session occurs twice")
	}
	return nil
}

// write replaces the state file whole, so that a crash leaves the old or the
// new one.
func (s *state) write(path string) error {
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	f, err := os.CreateTemp(dir, name+".*.new")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	_, err = f.Write(append(encode(s), '\n'))
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	return syncDir(dir)
}

// syncDir makes a rename in dir survive a power failure. Some file systems
// cannot do that and say so; the file is written all the same.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return nil // a directory that may be written, not read
	}
	_ = d.Sync()
	return d.Close()
}

// load takes over what a state file knows.
func (f *follower) load(s *state) {
	for i := len(s.Sessions) - 1; i >= 0; i-- { // the last active is first
		st := &s.Sessions[i]
		t, _ := f.tracks.start(st.Session, point{st.Epoch, st.Seq}, 0)
		if t == nil {
			continue
		}
		for _, a := range st.Above {
			f.tracks.advance(t, point{a.Epoch, a.Seq}, identity(a.ID))
		}
	}
	for ids := s.Recent; len(ids) > 0; ids = ids[identityBytes:] {
		f.memory.add(identity(ids[:identityBytes]))
	}
	f.boot, f.recalled, f.lostAt, f.resumed = s.Boot, true, s.Alive, true
}

// save writes the state file, after what it tells of was flushed (F1).
func (f *follower) save() error {
	if f.o.State == "" {
		return nil
	}
	if err := f.flush(); err != nil {
		return err
	}
	s := state{Format: stateFormat, Boot: f.boot, Alive: f.lostAt, Recent: f.memory.appendRecent(nil)}
	if s.Alive.IsZero() {
		s.Alive = f.heard
	}
	for _, t := range f.tracks.newest() {
		st := stateTrack{Session: t.name, Epoch: t.done.epoch, Seq: t.done.seq}
		for i := range t.above {
			a := &t.above[i]
			st.Above = append(st.Above, stateSeen{a.at.epoch, a.at.seq, a.id[:]})
		}
		s.Sessions = append(s.Sessions, st)
	}
	err := s.write(f.o.State)
	f.dirty = f.dirty && err != nil
	return err
}
