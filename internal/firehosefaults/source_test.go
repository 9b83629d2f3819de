package firehosefaults

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/codec/wsframe"
)

// source is a host that relays follow: frame n of its list has the number n, it
// keeps all of them, and it serves any cursor. Pings are not answered: something
// else comes before two of them could be missed. Any goroutine.
type source struct {
	addr string

	mu     sync.Mutex
	frames []listed
	index  map[string]int // id -> number
	grown  chan struct{}  // closed and made anew when frames are added
	ended  bool
	open   int // connections
}

// listed is a frame of a source.
type listed struct {
	bytes  []byte // a WebSocket message, immutable
	id     string
	commit bool
}

// startSource starts a source that has no frame yet.
func startSource(t *testing.T) *source {
	s := &source{index: map[string]int{}, grown: make(chan struct{})}
	var serving sync.WaitGroup
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serving.Add(1)
		defer serving.Done()
		s.serve(w, r)
	}))
	s.addr = srv.Listener.Addr().String()
	t.Cleanup(func() {
		s.mu.Lock()
		s.ended = true
		close(s.grown)
		s.mu.Unlock()
		srv.Close()
		serving.Wait()
	})
	return s
}

// serve answers one subscription, until the follower is gone or the test ends.
func (s *source) serve(w http.ResponseWriter, r *http.Request) {
	nc, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = nc.Close() }()
	if r.URL.Path != subscribePath {
		return
	}
	if _, err := nc.Write(wsframe.AppendSwitching(nil, []byte(r.Header.Get("Sec-WebSocket-Key")), "")); err != nil {
		return
	}
	next := s.join(r.URL.Query().Get("cursor"))
	defer s.leave()
	var reading sync.WaitGroup
	gone := make(chan struct{})
	reading.Go(func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, rw)
	})
	s.send(nc, next, gone)
	_ = nc.Close()
	reading.Wait()
}

// join returns the index of the first frame to send (F54).
func (s *source) join(cursor string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	if n, err := strconv.Atoi(cursor); err == nil {
		return min(n, len(s.frames))
	}
	return len(s.frames)
}

func (s *source) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
}

// send writes the frames from an index on.
func (s *source) send(nc net.Conn, next int, gone <-chan struct{}) {
	w := bufio.NewWriterSize(nc, 64<<10)
	for {
		s.mu.Lock()
		frames, grown, ended := s.frames[next:len(s.frames):len(s.frames)], s.grown, s.ended
		s.mu.Unlock()
		if ended {
			return
		}
		for _, f := range frames {
			if _, err := w.Write(f.bytes); err != nil {
				return
			}
		}
		if err := w.Flush(); err != nil {
			return
		}
		next += len(frames)
		select {
		case <-grown:
		case <-gone:
			return
		}
	}
}

// add appends messages to the list.
func (s *source) add(messages ...message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range messages {
		frame := m.frame(int64(len(s.frames) + 1))
		b := append(wsframe.AppendHeader(nil, wsframe.OpBinary, len(frame)), frame...)
		s.frames = append(s.frames, listed{b, m.id, m.Kind() == firehose.KindCommit})
		s.index[m.id] = len(s.frames)
	}
	close(s.grown)
	s.grown = make(chan struct{})
}

// length returns the number of the last frame.
func (s *source) length() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.frames)
}

// connections returns how many relays are connected.
func (s *source) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// find returns the number of a message and whether it is a commit, 0 for one
// that the source has not made.
func (s *source) find(id string) (number int, commit bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number = s.index[id]; number == 0 {
		return 0, false
	}
	return number, s.frames[number-1].commit
}

// idAt returns the id of the frame with a number.
func (s *source) idAt(number int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frames[number-1].id
}

// Pace of a source: so many frames in each step, as long as the consumer at the
// end of the chain is not too far behind.
const (
	stepFrames  = 8
	stepTime    = 10 * time.Millisecond
	aheadFrames = 20_000
	repoCount   = 100
)

// produce adds frames until stop is closed: commits of many repositories most of
// all, identities and accounts. No #sync: a relay that is sent an old one again
// takes the repository back to it, so that commits may repeat (F64).
func (s *source) produce(random *rand.Rand, passed func() int, stop <-chan struct{}) {
	repos := make([]*repo, repoCount)
	for i := range repos {
		repos[i] = newRepo(i)
	}
	tick := time.NewTicker(stepTime)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if s.length() > passed()+aheadFrames {
			continue
		}
		var some []message
		for range stepFrames {
			r := repos[random.IntN(len(repos))]
			switch random.IntN(20) {
			case 0:
				some = append(some, r.identity())
			case 1:
				some = append(some, r.account())
			default:
				some = append(some, r.commit(60+random.IntN(200)))
			}
		}
		s.add(some...)
	}
}
