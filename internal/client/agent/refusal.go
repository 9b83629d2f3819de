package agent

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
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/client/render"
)

const (
	// maxAnswerBytes is how much of an answer's body is read.
	maxAnswerBytes = 64 << 10
	// maxClean bounds what is repeated of a text from elsewhere, in bytes.
	maxClean = 300
)

// Reasons for the end of a connection.
var (
	errEnded  = errors.New("the relay has ended the connection")
	errSilent = errors.New("the relay is silent: it sends no heartbeats and answers no ping")
	errNoMark = errors.New("the relay acknowledges nothing")
	errLate   = errors.New("the relay does not answer in time")
)

// Refusal is an answer that every further attempt would get too.
type Refusal struct {
	Status int    // of HTTP, 0 for an answer within a session
	Name   string // an error code or reason, "" if none was said; fit for a terminal
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

// ErrReplaced tells that another connection has opened the same session (B44).
var ErrReplaced = errors.New("another connection has taken the session (replaced)")

// final reports whether an error would come again at each attempt.
func final(err error) bool {
	_, refused := errors.AsType[*Refusal](err)
	return refused || errors.Is(err, ErrReplaced)
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

// advice says what statuses before the upgrade mean (B3, B4, B7, B8).
var advice = map[int]string{
	http.StatusBadRequest:      "the relay does not speak " + aepws.Subprotocol + " at this address",
	http.StatusUnauthorized:    "the relay wants its token",
	http.StatusForbidden:       "a relay without a token is only for clients on its own machine",
	http.StatusNotFound:        "there is no agents' WebSocket at this address",
	http.StatusUpgradeRequired: "the request for a WebSocket did not reach the relay: does a proxy take it out?",
}

// judge returns the error of an answer that is no upgrade: a busyError or a
// Refusal.
func judge(resp *http.Response, now time.Time) error {
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

// said reads the code and message of an answer (B3), both fit for a terminal.
// What is no such object, as from a proxy, gives its first line as message.
func said(body io.Reader) (name, message string) {
	text, _ := io.ReadAll(io.LimitReader(body, maxAnswerBytes)) // the status says enough
	var b struct {
		Error errorBody `json:"error"`
	}
	if json.Unmarshal(text, &b) == nil {
		return clean(b.Error.Code), clean(b.Error.Message)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if strings.HasPrefix(first, "<") { // a page
		first = ""
	}
	return "", clean(first)
}

// sessionError returns what a session.error means: a Refusal, if the same would
// happen again (B27), else an error of the connection.
func sessionError(b *errorBody) error {
	switch b.Code {
	case aepws.Unauthorized.String(), aepws.UnsupportedVersion.String(), aepws.ProtocolError.String():
		return &Refusal{Text: b.words()}
	}
	return errors.New("the relay says " + b.words())
}

// endOf puts the end of a connection in words. It is a Refusal when the relay
// does not want this client (B43).
func endOf(err error) error {
	if closed, ok := errors.AsType[websocket.CloseError](err); ok {
		text := strings.TrimSpace(fmt.Sprintf("the relay has closed the connection with %d %s", int(closed.Code), clean(closed.Reason)))
		if closed.Code == websocket.StatusPolicyViolation {
			return &Refusal{Text: text}
		}
		return &closedError{code: closed.Code, text: text}
	}
	switch {
	case errors.Is(err, websocket.ErrMessageTooBig):
		return &Refusal{Text: fmt.Sprintf("it sends a message of more than %d bytes", maxMessageBytes)}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errEnded
	}
	return err
}

// closedError is a close frame of the relay.
type closedError struct {
	code websocket.StatusCode
	text string
}

func (e *closedError) Error() string { return e.text }

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

// clean returns a text from elsewhere on one line, shortened and without
// anything that a terminal would act on (G3).
func clean(text string) string { return render.Escape(shorten(strings.TrimSpace(text), maxClean)) }

// shorten cuts a text between two characters and marks the cut.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "..."
}
