package publish

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/internal/client"
)

// verdict says what an answer to a batch means for it.
type verdict uint8

const (
	taken   verdict = iota // every line is in
	refused                // one line is refused, nothing is in (R71)
	unclear                // some line is refused, it is not said which
	tooMuch                // fewer lines or bytes would do
	later                  // the same again, after a while
	never                  // no batch will be taken
)

// answer is an HTTP answer to a batch, read.
type answer struct {
	verdict  verdict
	line     int           // refused: counted from 0 among the lines of the request (R72)
	maxLines int           // tooMuch: what would do, 0 if that is not said
	maxBytes int64         // tooMuch: likewise
	after    time.Duration // later: at least this long after
	reason   string
}

// refusalBody is the body of a refusal (R70, R73).
type refusalBody struct {
	Error    string `json:"error"`
	Line     *int   `json:"line"`
	Detail   string `json:"detail"`
	Max      int    `json:"max"`
	MaxBytes int64  `json:"max_bytes"`
}

// judge reads the answer to a request of n lines. Body is what was read of its
// body, borrowed. Now is for a Retry-After that is a date.
func judge(status int, header http.Header, body []byte, n int, now time.Time) answer {
	var b refusalBody
	if json.Unmarshal(body, &b) != nil {
		b = refusalBody{}
	}
	switch {
	case status == http.StatusAccepted:
		return answer{verdict: taken}
	case status == http.StatusBadRequest && (b.Error == "invalid-event" || b.Error == "invalid-json"),
		status == http.StatusForbidden && b.Error == "control-requires-duplex":
		a := answer{verdict: unclear, reason: refusalText(b)}
		if n == 1 {
			a.verdict = refused
		} else if b.Line != nil && *b.Line >= 0 && *b.Line < n {
			a.verdict, a.line = refused, *b.Line
		}
		return a
	case status == http.StatusRequestEntityTooLarge:
		return answer{verdict: tooMuch, reason: tooMuchText(b), maxLines: max(b.Max, 0), maxBytes: max(b.MaxBytes, 0)}
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status == http.StatusTooEarly,
		status >= 500:
		return answer{verdict: later, after: client.RetryAfter(header.Get("Retry-After"), now), reason: statusText(status, body)}
	}
	return answer{verdict: never, reason: adviceText(status, header, body)}
}

func refusalText(b refusalBody) string {
	if b.Error == "control-requires-duplex" {
		return "a command, which travels on a WebSocket only: see --ws and sluice control"
	}
	return strings.TrimSuffix(printable(b.Error+": "+b.Detail), ": ")
}

func tooMuchText(b refusalBody) string {
	if b.MaxBytes > 0 {
		return fmt.Sprintf("larger than the relay takes, %d bytes", b.MaxBytes)
	}
	return "larger than the relay takes"
}

// adviceText says what to do about a status that is final.
func adviceText(status int, header http.Header, body []byte) string {
	text := statusText(status, body)
	switch {
	case status == http.StatusUnauthorized:
		return text + ": the relay wants a token, or another one: set AEP_TOKEN or --token-file"
	case status == http.StatusUpgradeRequired:
		return text + ": it does not speak AEP 0.1"
	case status == http.StatusNotFound, status >= 200 && status < 300:
		return text + ": is there a relay at this address?"
	case status >= 300 && status < 400:
		return text + ": redirected to " + printable(header.Get("Location")) + ", which is not followed"
	}
	return text
}

// statusText is a status with the beginning of a text body.
func statusText(status int, body []byte) string {
	text := fmt.Sprintf("the relay answers %d %s", status, http.StatusText(status))
	if said := strings.TrimSpace(string(body[:min(len(body), 300)])); said != "" && !strings.HasPrefix(said, "<") {
		first, _, _ := strings.Cut(said, "\n")
		text += " (" + printable(first) + ")"
	}
	return text
}
