package follow

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/sluice-relay/sluice/codec/sse"
)

// what says what an item is.
type what uint8

const (
	isEvent      what = iota + 1
	isUp              // the relay has accepted the request
	isOther           // a sign of life
	isBoot            // text has the boot id
	isGap             // session and at have what is gone
	isShed            // n events were left out
	isClosing         // text has the reason
	isRetry           // wait n milliseconds before connecting again
	isComplete        // the replay is over
	isIncomplete      // the search for sessions was given up
)

// item is one thing that a connection told.
type item struct {
	what       what
	start, end int // of an event's text in batch.data
	text       string
	session    string
	at         point
	n          int64
}

// batch is what one read has brought. The receiver owns it.
type batch struct {
	req   *request
	data  []byte
	items []item
}

func (b *batch) event(text []byte) {
	start := len(b.data)
	b.data = append(b.data, text...)
	b.items = append(b.items, item{what: isEvent, start: start, end: len(b.data)})
}

func (b *batch) add(it item) { b.items = append(b.items, it) }

// text returns the text of an event.
func (b *batch) text(it *item) []byte { return b.data[it.start:it.end] }

// sse adds an item of a stream. Its slices are borrowed.
func (b *batch) sse(it sse.Item) {
	switch it.Kind {
	case sse.KindEvent:
		b.event(it.Data)
	case sse.KindRetry:
		b.add(item{what: isRetry, n: it.RetryMillis})
	case sse.KindComment:
		b.add(comment(string(it.Data)))
	}
}

// comment reads a comment (R274, R424a). One that is not known is a sign of
// life.
func comment(text string) item {
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "open":
		return item{what: isBoot, text: rest}
	case "shed":
		if n, err := strconv.ParseInt(rest, 10, 64); err == nil {
			return item{what: isShed, n: n}
		}
	case "replay-exhausted":
		// The name may hold spaces; the position is behind the last one.
		i := strings.LastIndexByte(rest, ' ')
		if i < 0 {
			break
		}
		epoch, seq, ok := strings.Cut(rest[i+1:], ":")
		e, errEpoch := strconv.ParseInt(epoch, 10, 64)
		n, errSeq := strconv.ParseInt(seq, 10, 64)
		if ok && errEpoch == nil && errSeq == nil {
			return item{what: isGap, session: rest[:i], at: point{e, n}}
		}
	case "replay-complete":
		return item{what: isComplete}
	case "shutting-down":
		return item{what: isClosing, text: word}
	}
	return item{what: isOther}
}

// pump reads in a goroutine of its own.
type pump struct {
	batches chan *batch // closed when reading has ended
	err     error       // why; valid once batches is closed
}

// emitter hands a batch to the one who takes it. Its error ends the reading.
type emitter func(*batch) error

// queued is how many batches may be read ahead.
const queued = 8

// startPump runs read until it returns. It returns soon after ctx has ended.
func startPump(ctx context.Context, wg *sync.WaitGroup, read func(emitter) error) *pump {
	p := &pump{batches: make(chan *batch, queued)}
	wg.Go(func() {
		p.err = read(func(b *batch) error {
			select {
			case p.batches <- b:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		close(p.batches)
	})
	return p
}
