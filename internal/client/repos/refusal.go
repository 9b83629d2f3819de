package repos

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/internal/client"
)

// maxAnswerBytes is how much of an answer's body is read.
const maxAnswerBytes = 64 << 10

// Reasons for the end of a connection.
var (
	errEnded  = errors.New("the relay has ended the connection")
	errSilent = errors.New("the relay answers no ping")
)

// Refusal is an answer, or an error frame, that every further attempt would get
// too.
type Refusal struct {
	Status int    // of HTTP, 0 for an error frame
	Name   string // as in F2 and F49, "" if none was said; fit for a terminal
	Text   string // what to know about it, fit for a terminal
}

// Error implements error.
func (r *Refusal) Error() string {
	text := "the relay refuses"
	if r.Status > 0 {
		text += " with " + strings.TrimSpace(strconv.Itoa(r.Status)+" "+http.StatusText(r.Status))
	}
	for _, more := range []string{r.Name, r.Text} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}

// busyError is an answer that a later attempt may not get.
type busyError struct {
	status int
	said   string
	after  time.Duration // what the answer asked to wait, 0 for nothing
}

func (e *busyError) Error() string {
	text := fmt.Sprintf("the relay answers %d %s", e.status, http.StatusText(e.status))
	if e.said != "" {
		text += " (" + e.said + ")"
	}
	return text
}

// streamError is an error frame after which a connection is tried again (F32).
type streamError struct{ name, message string }

func (e *streamError) Error() string {
	return strings.TrimSuffix("the relay says "+clean(e.name)+": "+clean(e.message), ": ")
}

// said reads the name and message of an answer (F2), both fit for a terminal.
// What is no such object, as from a proxy, gives its first line as message.
func said(body io.Reader) (name, message string) {
	text, _ := io.ReadAll(io.LimitReader(body, maxAnswerBytes)) // the status says enough
	var b struct {
		Error   string `json:"error"`
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &b) == nil {
		return clean(b.Error), clean(b.Message)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if strings.HasPrefix(first, "<") { // a page
		first = ""
	}
	return "", clean(first)
}

// judge returns the error of an answer that is not what was asked for: a
// busyError or a Refusal. advice is for statuses whose meaning depends on what
// was asked.
func judge(resp *http.Response, advice map[int]string, now time.Time) error {
	name, message := said(resp.Body)
	status := resp.StatusCode
	if status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500 {
		return &busyError{
			status: status, said: joined(name, message),
			after: client.RetryAfter(resp.Header.Get("Retry-After"), now),
		}
	}
	text := advice[status]
	switch {
	case text != "":
	case status < 300:
		text = "the answer is of something else: is this a relay?"
	case status < 400:
		text = "redirected to " + clean(resp.Header.Get("Location")) + ", which is not followed"
	}
	return &Refusal{Status: status, Name: name, Text: joined(message, text)}
}

// joined puts two texts, each of which may be empty, behind one another.
func joined(a, b string) string {
	if a != "" && b != "" {
		return a + ": " + b
	}
	return a + b
}

// plain takes away what package http puts around a transport's error: the URL.
func plain(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
