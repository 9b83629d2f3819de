package syncload

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/bench/load"
)

const (
	owners     = 64
	batch      = 100
	eventBytes = 1 << 10
	blobBytes  = 256 << 10
	blobConns  = 8
)

// each runs f for n devices at once, with a connection each, and returns all that
// failed.
func each(ctx context.Context, addr string, n int, owner func(int) string, f func(i int, d *device) error) error {
	var group sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		group.Go(func() {
			d, err := dial(ctx, addr, owner(i), i)
			if err == nil {
				err = f(i, d)
				d.close()
			}
			errs[i] = err
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func ownerOf(prefix string) func(int) string {
	return func(i int) string { return fmt.Sprint(prefix, "-", i) }
}

// push has devices of many owners push batches for a while. It returns events a
// second and the latencies of the pushes.
func push(ctx context.Context, addr, prefix string, batch int, d time.Duration) (perSecond float64, h load.Histogram, err error) {
	var events atomic.Int64
	hists := make([]load.Histogram, owners)
	began := time.Now()
	err = each(ctx, addr, owners, ownerOf(prefix), func(i int, dev *device) error {
		var body, buf []byte
		var err error
		for n := 0; time.Since(began) < d && ctx.Err() == nil; n++ {
			body = pushBody(body[:0], dev.owner, n*batch, batch, eventBytes)
			at := time.Now()
			if buf, err = dev.do("POST", "/v1/events", body, buf); err != nil {
				return err
			}
			hists[i].Record(time.Since(at))
			events.Add(int64(batch))
		}
		return nil
	})
	took := time.Since(began)
	for i := range hists {
		h.Merge(&hists[i])
	}
	return float64(events.Load()) / took.Seconds(), h, err
}

// fill stores so many events for one owner.
func fill(ctx context.Context, addr, owner string, events int) error {
	return each(ctx, addr, 1, func(int) string { return owner }, func(_ int, d *device) error {
		var body, buf []byte
		var err error
		for n := 0; n < events; n += 1000 {
			body = pushBody(body[:0], owner, n, 1000, eventBytes)
			if buf, err = d.do("POST", "/v1/events", body, buf); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// pull reads all events of an owner in pages. It returns how many there were,
// their bytes, and the latencies of the pages.
func pull(ctx context.Context, addr, owner string) (events int, bytes int64, h load.Histogram, err error) {
	err = each(ctx, addr, 1, func(int) string { return owner }, func(_ int, d *device) error {
		var buf []byte
		for cursor := ""; ctx.Err() == nil; {
			at := time.Now()
			var err error
			if buf, err = d.do("GET", "/v1/events?ownerId="+owner+"&limit=1000&after="+cursor, nil, buf); err != nil {
				return err
			}
			h.Record(time.Since(at))
			var page struct {
				Events     []json.RawMessage
				NextCursor string
			}
			if err := json.Unmarshal(buf, &page); err != nil {
				return err
			}
			events += len(page.Events)
			bytes += int64(len(buf))
			if len(page.Events) == 0 {
				return nil
			}
			cursor = page.NextCursor
		}
		return ctx.Err()
	})
	return events, bytes, h, err
}

// blobs stores chunks, or reads them when get is set, and returns chunks a second.
func blobs(ctx context.Context, addr string, chunks int, round string, get bool) (perSecond float64, err error) {
	began := time.Now()
	err = each(ctx, addr, blobConns, func(int) string { return "blobs" }, func(i int, d *device) error {
		var buf []byte
		body := make([]byte, blobBytes)
		for n := i; n < chunks && ctx.Err() == nil; n += blobConns {
			copy(body, fmt.Sprintf("%s %08d", round, n))
			sum := sha256.Sum256(body)
			path := "/v1/blobs/" + base64.RawURLEncoding.EncodeToString(sum[:]) + "?ownerId=" + d.owner
			method, sent := "PUT", body
			if get {
				method, sent = "GET", nil
			}
			var err error
			if buf, err = d.do(method, path, sent, buf); err != nil {
				return err
			}
			if get && len(buf) != blobBytes {
				return fmt.Errorf("%w: a chunk of %d bytes", errStatus, len(buf))
			}
		}
		return ctx.Err()
	})
	return float64(chunks) / time.Since(began).Seconds(), err
}

// waiting is what devices that wait came to.
type waiting struct {
	devices     int
	memoryBytes float64 // of the relay's resident memory, each
	wake        load.Histogram
}

// wait has devices of many owners wait, looks at the relay's memory, and then
// wakes all of them by one push for each owner.
func wait(ctx context.Context, r *relay, devices int) (w waiting, err error) {
	const prefix = "waiting"
	var open []*device
	defer func() {
		for _, d := range open {
			d.close()
		}
	}()
	if err := each(ctx, r.addr, owners, ownerOf(prefix), func(_ int, d *device) error {
		_, err := d.do("POST", "/v1/events", pushBody(nil, d.owner, 0, 1, eventBytes), nil)
		return err
	}); err != nil {
		return w, err
	}
	for i := range devices {
		d, err := dial(ctx, r.addr, ownerOf(prefix)(i%owners), i/50)
		if err != nil {
			return w, err
		}
		open = append(open, d)
		// One request before, so that what a connection costs at all is there.
		body, err := d.do("GET", "/v1/events?limit=1&ownerId="+d.owner, nil, nil)
		if err != nil {
			return w, err
		}
		var page struct{ NextCursor string }
		if err := json.Unmarshal(body, &page); err != nil {
			return w, err
		}
		d.out = []byte(page.NextCursor)
	}
	before, err := r.settledBytes(ctx)
	if err != nil {
		return w, err
	}
	for _, d := range open {
		if err := d.send("GET", "/v1/events/wait?timeout=60000&ownerId="+d.owner+"&after="+string(d.out), nil); err != nil {
			return w, err
		}
	}
	if err := r.awaitGauge(ctx, "sluice_sync_waiting_devices", float64(devices)); err != nil {
		return w, err
	}
	after, err := r.settledBytes(ctx)
	if err != nil {
		return w, err
	}
	w.devices, w.memoryBytes = devices, float64(after-before)/float64(devices)
	w.wake, err = wakeAll(ctx, r.addr, prefix, open)
	return w, err
}

// wakeAll pushes one event for each owner and returns how long after it each
// device had its answer.
func wakeAll(ctx context.Context, addr, prefix string, open []*device) (h load.Histogram, err error) {
	took := make([]time.Duration, len(open))
	errs := make([]error, len(open))
	var group sync.WaitGroup
	var pushed [owners]atomic.Int64
	for i, d := range open {
		group.Go(func() {
			_, errs[i] = d.receive(nil, http.StatusOK)
			took[i] = time.Duration(time.Now().UnixNano() - pushed[i%owners].Load())
		})
	}
	err = each(ctx, addr, owners, ownerOf(prefix), func(i int, d *device) error {
		pushed[i].Store(time.Now().UnixNano())
		_, err := d.do("POST", "/v1/events", pushBody(nil, d.owner, 1, 1, eventBytes), nil)
		return err
	})
	if err != nil {
		return h, err
	}
	group.Wait()
	for _, d := range took {
		h.Record(d)
	}
	return h, errors.Join(errs...)
}

// median returns the middle of values, which it sorts.
func median(values []float64) float64 {
	slices.Sort(values)
	if len(values) == 0 {
		return 0
	}
	return values[len(values)/2]
}
