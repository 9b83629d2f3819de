package syncload

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-relay/sluice/bench/load"
)

// Latency is what a prober saw.
type Latency struct {
	P50, P99, Max time.Duration
	Events        int64
}

// probeRate is how many events a second a prober publishes.
const probeRate = 200

// Probe publishes events to an AEP relay at a steady rate, one a request, follows
// them over SSE, and writes the latencies as JSON: from the moment at which an
// event was to be published to its arrival.
func Probe(ctx context.Context, addr string, d time.Duration, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	session := fmt.Sprint("probe-", time.Now().UnixNano())
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+addr+`/stream?filter={"session":"`+session+`"}`, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: %s", errStatus, res.Status)
	}
	total := int(d.Seconds() * probeRate)
	began := time.Now().Add(100 * time.Millisecond)
	due := func(n int) time.Time { return began.Add(time.Duration(n) * time.Second / probeRate) }
	var h load.Histogram
	read := make(chan error, 1)
	go func() { read <- readEvents(res.Body, total, func(n int) { h.Record(time.Since(due(n))) }) }()
	for n := range total {
		time.Sleep(time.Until(due(n)))
		if err := publish(ctx, addr, session, n); err != nil {
			return err
		}
	}
	select {
	case err := <-read:
		if err != nil {
			return err
		}
	case <-time.After(answerTime):
		return errors.New("syncload: events of the prober did not come back")
	}
	return json.NewEncoder(out).Encode(Latency{h.Quantile(0.5), h.Quantile(0.99), h.Max(), h.Count()})
}

func publish(ctx context.Context, addr, session string, n int) error {
	body := fmt.Sprintf(`{"aep":"0.1","id":"probe-%d","type":"run.started","time":"2026-01-01T00:00:00Z",`+
		`"source":"urn:bench:probe","agent":"probe","session":%q,"seq":%d}`, n, session, n)
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+addr+"/events", bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	req.Header.Set("AEP-Version", "0.1")
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusAccepted {
		return fmt.Errorf("%w: %s", errStatus, res.Status)
	}
	return nil
}

// readEvents calls seen with the number of each event, as it comes, until so many
// came.
func readEvents(in io.Reader, total int, seen func(n int)) error {
	const mark = `"id":"probe-`
	lines := bufio.NewReader(in)
	for got := 0; got < total; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		i := bytes.Index(line, []byte(mark))
		if i < 0 || !bytes.HasPrefix(line, []byte("data:")) {
			continue
		}
		digits, _, _ := bytes.Cut(line[i+len(mark):], []byte(`"`))
		n, err := strconv.Atoi(string(digits))
		if err != nil {
			return err
		}
		seen(n)
		got++
	}
	return nil
}
