package syncload

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	syncdevice "github.com/sluice-relay/sluice/internal/device"
)

// rowBytes is about how large the content of a row is: its envelope has some
// 570 bytes.
const rowBytes = 200

// benchDevice is the device that seals what the others fetch.
const benchDevice = "bench"

// owner is one owner with so many sealed events.
type owner struct {
	identity *synccrypt.Identity
	secret   string
}

// newOwner makes an owner nobody had before.
func newOwner() (owner, error) {
	secret, err := synccrypt.NewNativeKey(rand.Reader)
	if err != nil {
		return owner{}, err
	}
	id, secret, err := synccrypt.ParseCredential(secret)
	return owner{id, secret}, err
}

// payload is the n-th row.
func payload(n int) synccrypt.Payload {
	hlc := synccrypt.HLC{Millis: 1_700_000_000_000 + int64(n), Device: benchDevice}
	return synccrypt.Payload{
		SchemaVersion: 1, Table: "note", ID: fmt.Sprint("row-", n), HLC: hlc.String(),
		Row: fmt.Appendf(nil, `{"n":%d,"text":"%s"}`, n, strings.Repeat("x", rowBytes-20)),
	}
}

// sealed seals count events from first on.
func (o owner) sealed(first, count int) ([][]byte, error) {
	list := make([][]byte, count)
	for i := range list {
		p := payload(first + i)
		var err error
		if list[i], err = o.identity.Seal(nil, &p, benchDevice, time.UnixMilli(1_700_000_000_000), rand.Reader); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// fill stores so many sealed events for the owner.
func (o owner) fill(ctx context.Context, addr string, events int) error {
	return o.each(ctx, addr, func(d *device) error {
		var body, buf []byte
		for n := 0; n < events; n += 1000 {
			list, err := o.sealed(n, min(1000, events-n))
			if err != nil {
				return err
			}
			body = append(body[:0], `{"ownerId":"`+o.identity.OwnerID+`","events":[`...)
			for i, e := range list {
				if i > 0 {
					body = append(body, ',')
				}
				body = append(body, e...)
			}
			if buf, err = d.do("POST", "/v1/events", append(body, `]}`...), buf); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// each runs f on a connection with the owner's token.
func (o owner) each(ctx context.Context, addr string, f func(*device) error) error {
	return each(ctx, addr, 1, func(int) string { return o.identity.RelayAuth }, func(_ int, d *device) error { return f(d) })
}

// bare pulls all events and opens them, and does nothing with what was in them:
// what no device can be faster than on one connection.
func (o owner) bare(ctx context.Context, addr string) (events int, err error) {
	err = o.each(ctx, addr, func(d *device) error {
		var buf []byte
		for cursor := ""; ctx.Err() == nil; {
			var err error
			if buf, err = d.do("GET", "/v1/events?ownerId="+o.identity.OwnerID+"&limit=1000&after="+cursor, nil, buf); err != nil {
				return err
			}
			var page struct {
				Events     []json.RawMessage
				NextCursor string
			}
			if err := json.Unmarshal(buf, &page); err != nil {
				return err
			}
			for _, e := range page.Events {
				if _, _, _, err := o.identity.OpenPayload(e); err != nil {
					return err
				}
			}
			events += len(page.Events)
			if len(page.Events) == 0 {
				return nil
			}
			cursor = page.NextCursor
		}
		return ctx.Err()
	})
	return events, err
}

// firstSync makes a device of the owner with an empty store and syncs it.
func (o owner) firstSync(ctx context.Context, addr string) (rows int, err error) {
	dir, err := os.MkdirTemp("", "syncload-device")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d, err := syncdevice.Create(dir+"/device", o.secret, "first", syncdevice.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.AddRelay("http://" + addr); err != nil {
		return 0, err
	}
	if _, err := d.Sync(ctx, syncdevice.SyncOptions{}); err != nil {
		return 0, err
	}
	status, err := d.Status()
	return int(status.Rows), err
}

// sealing returns how many events one core seals and opens a second, and how many
// all cores open.
func (o owner) sealing(d time.Duration) (seal, open, openAll float64, err error) {
	list, err := o.sealed(0, 1000)
	if err != nil {
		return 0, 0, 0, err
	}
	opens := func(i int) error {
		_, _, _, err := o.identity.OpenPayload(list[i%len(list)])
		return err
	}
	var buf []byte
	seal, err = rate(d, 1, func(i int) error {
		p := payload(i)
		buf, err = o.identity.Seal(buf[:0], &p, benchDevice, time.UnixMilli(1_700_000_000_000), rand.Reader)
		return err
	})
	if err == nil {
		open, err = rate(d, 1, opens)
	}
	if err == nil {
		openAll, err = rate(d, runtime.GOMAXPROCS(0), opens)
	}
	return seal, open, openAll, err
}

// rate calls f for a while in so many goroutines, and returns calls a second.
func rate(d time.Duration, goroutines int, f func(i int) error) (float64, error) {
	var group sync.WaitGroup
	counts, errs := make([]int, goroutines), make([]error, goroutines)
	began := time.Now()
	for g := range goroutines {
		group.Go(func() {
			n := 0
			for ; time.Since(began) < d && errs[g] == nil; n++ {
				errs[g] = f(n)
			}
			counts[g] = n
		})
	}
	group.Wait()
	took, sum := time.Since(began).Seconds(), 0
	for _, n := range counts {
		sum += n
	}
	return float64(sum) / took, errors.Join(errs...)
}

// devices measures what a device does: sealing and opening, and a first sync
// against pulling and opening alone, in turns.
func (s *suite) devices(ctx context.Context) error {
	o, err := newOwner()
	if err != nil {
		return err
	}
	var seal, open, openAll, bare, first, ratio []float64
	err = s.with(0, func(r *relay) error {
		if err := o.fill(ctx, r.addr, s.o.Events); err != nil {
			return err
		}
		for round := range s.o.Rounds {
			sealed, opened, all, err := o.sealing(s.o.Push / 4)
			if err != nil {
				return err
			}
			seal, open, openAll = append(seal, sealed), append(open, opened), append(openAll, all)
			pulled, err := s.timed(&bare, func() (int, error) { return o.bare(ctx, r.addr) })
			if err != nil {
				return err
			}
			rows, err := s.timed(&first, func() (int, error) { return o.firstSync(ctx, r.addr) })
			if err != nil {
				return err
			}
			if pulled != s.o.Events || rows != s.o.Events {
				return fmt.Errorf("%w: %d events and %d rows of %d", errStatus, pulled, rows, s.o.Events)
			}
			ratio = append(ratio, first[round]/bare[round])
		}
		return nil
	})
	if err != nil {
		return err
	}
	name := fmt.Sprintf("events of rows of %d bytes", rowBytes)
	s.add(name, "sealed a second on one core", "%.0f", median(seal))
	s.add(name, "opened a second on one core; on all", "%.0f; %.0f", median(open), median(openAll))
	name = fmt.Sprintf("first sync of %d rows", s.o.Events)
	s.add(name, "pulled and opened alone", "%.2f s", median(bare))
	s.add(name, "a device with an empty store", "%.2f s", median(first))
	s.add(name, "ratio of one round", "%.2f", median(ratio))
	return nil
}

// timed runs f and appends how long it took, in seconds.
func (s *suite) timed(took *[]float64, f func() (int, error)) (int, error) {
	began := time.Now()
	n, err := f()
	*took = append(*took, time.Since(began).Seconds())
	return n, err
}
