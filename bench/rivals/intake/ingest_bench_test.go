package intake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// discard is a sink for events that nobody wants.
type discard struct{}

func (discard) Publish([]Event) {}

// BenchmarkIngest measures a body of 100 new events of 600 bytes, handler
// only, by decoder. It is why sonic is taken.
func BenchmarkIngest(b *testing.B) {
	const lines, size, digits = 100, 600, 10
	const head = `{"id":"bench-%010d","type":"message.text","time":"2026-01-02T03:04:05Z","session":"s0","seq":1,"data":{"text":"`
	one := fmt.Sprintf(head, 0)
	one += strings.Repeat("x", size-len(one)-3) + "\"}}"
	at := strings.Index(one, "bench-") + len("bench-")
	for name, h := range map[string]*Ingest{
		"sonic": NewIngest(discard{}),
		"encoding/json": newIngest(discard{}, func(line []byte, into *envelope) error {
			return json.Unmarshal(line, into)
		}),
	} {
		b.Run(name, func(b *testing.B) {
			body := []byte(strings.Repeat(one+"\n", lines))
			number := 0
			b.ReportAllocs()
			for b.Loop() {
				for i := range lines {
					number++
					copy(body[i*(size+1)+at:], fmt.Appendf(nil, "%0*d", digits, number))
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/events", bytes.NewReader(body)))
				if w.Code != http.StatusAccepted {
					b.Fatal(w.Code, w.Body)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*lines), "ns/event")
		})
	}
}
