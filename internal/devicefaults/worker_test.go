package devicefaults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/device"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// workerVariable holds an order, as JSON, for a test binary that is to be a
// device which works until it is killed.
const workerVariable = "TEST_BINARY_AS_DEVICE"

// order is what a worker does.
type order struct {
	Dir  string
	Name string // for what it writes: no two workers have the same
	Seed uint64
	Pull bool // sync until that works once, and write nothing
}

// line is what a worker says of its work: before a write what it is about to
// write, after it what Put returned.
type line struct {
	Open bool              `json:",omitempty"` // the device is open
	Try  []attempt         `json:",omitempty"`
	Put  []devicestore.Row `json:",omitempty"`
	Done bool              `json:",omitempty"` // a Sync went through
	Err  string            `json:",omitempty"` // and it has ended
}

// attempt is a write that may have happened.
type attempt struct {
	devicestore.Key
	Data string // "" for a deletion
}

// workerMain works, and ends the process, if this test binary is to be a
// worker.
func workerMain() {
	text := os.Getenv(workerVariable)
	if text == "" {
		return
	}
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.work()
	}
	if err != nil {
		tell(line{Err: err.Error()})
		os.Exit(1)
	}
	os.Exit(0)
}

// tell writes a line in one piece, so that a kill leaves whole ones.
func tell(l line) {
	text, err := json.Marshal(l)
	if err == nil {
		_, err = os.Stdout.Write(append(text, '\n'))
	}
	if err != nil {
		os.Exit(2) // nobody reads any more
	}
}

// work does what the order says until it is killed.
func (o order) work() error {
	rng := rand.New(rand.NewPCG(o.Seed, 4))
	d, err := device.Open(o.Dir, device.Options{PushEvents: 1 + rng.IntN(20), PullEvents: 1 + rng.IntN(20)})
	if err != nil {
		return err
	}
	tell(line{Open: true})
	for n := 0; ; n++ {
		if o.Pull || rng.IntN(3) == 0 {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			_, err := d.Sync(ctx, device.SyncOptions{})
			cancel()
			if err == nil {
				tell(line{Done: true})
			}
			if err == nil && o.Pull {
				return d.Close()
			}
			continue // without a relay it goes on writing
		}
		if err := o.put(d, rng, n); err != nil {
			return err
		}
	}
}

// put writes one to four rows at once.
func (o order) put(d *device.Device, rng *rand.Rand, n int) error {
	var tried []attempt
	var edits []devicestore.Edit
	for i := range 1 + rng.IntN(4) {
		k := key(fmt.Sprintf("row %d", 4*rng.IntN(10)+i)) // no key twice in one Put
		e := devicestore.Edit{Key: k}
		row, err := d.Get(k)
		switch {
		case err != nil && !errors.Is(err, devicestore.ErrNoRow):
			return err
		case err != nil || row.Deleted || rng.IntN(5) > 0:
			e.Data = fmt.Appendf(nil, `{"by":%q,"n":"%d.%d"}`, o.Name, n, i)
		}
		edits = append(edits, e)
		tried = append(tried, attempt{k, string(e.Data)})
	}
	tell(line{Try: tried})
	rows, err := d.Put(edits...)
	if errors.Is(err, devicestore.ErrNoRow) { // another worker deleted it meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	tell(line{Put: rows})
	return nil
}

// worker is a process that works.
type worker struct {
	cmd    *exec.Cmd
	opened chan struct{} // closed when its device is open, or it has ended
	ended  chan struct{} // closed when lines is complete
	lines  []line        // valid once ended is closed
}

// startWorker starts one.
func startWorker(t testing.TB, o order) *worker {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	text, err := json.Marshal(o)
	must(t, err)
	w := &worker{cmd: exec.Command(self), opened: make(chan struct{}), ended: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), workerVariable+"="+string(text))
	w.cmd.Stderr = os.Stderr
	out, err := w.cmd.StdoutPipe()
	must(t, err)
	must(t, w.cmd.Start())
	go w.read(out)
	t.Cleanup(w.kill)
	return w
}

func (w *worker) read(out io.Reader) {
	defer close(w.ended)
	opened := false
	lines := bufio.NewReader(out)
	for {
		text, err := lines.ReadBytes('\n')
		var l line
		if err == nil {
			err = json.Unmarshal(text, &l)
		}
		if !opened && (err != nil || l.Open) {
			opened = true
			close(w.opened)
		}
		if err != nil {
			return // a line that was cut off was not said
		}
		w.lines = append(w.lines, l)
	}
}

// kill is SIGKILL, and waits until all that the worker said was read. A second
// time it does nothing.
func (w *worker) kill() {
	_ = w.cmd.Process.Kill()
	<-w.ended
	_ = w.cmd.Wait()
}

// killAfter lets it work for a while once its device is open.
func (w *worker) killAfter(pause time.Duration) {
	<-w.opened
	time.Sleep(pause) // the moment of the kill, which is random
	w.kill()
}
