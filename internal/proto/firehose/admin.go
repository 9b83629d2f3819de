package firehose

import (
	"encoding/json"
	"errors"

	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/engine/serve"
)

// Upstream is the side of the relay that follows other hosts (section 9). Its
// methods block, and any goroutine may call them. Errors that the caller made
// are RequestErrors.
type Upstream interface {
	// RepoStatus returns what is known of an account, false for one that never
	// came.
	RepoStatus(did string) (RepoStatus, bool, error)
	// Account does takedown or restore (F67).
	Account(did, action string) error
	// Host does connect, disconnect, ban or unban (F70).
	Host(hostname, action string) error
}

// RepoStatus is what getRepoStatus answers with.
type RepoStatus struct {
	DID    string `json:"did"`
	Active bool   `json:"active"`
	Status string `json:"status,omitempty"` // only of one that is not active
	Rev    string `json:"rev,omitempty"`
}

// RequestError is a fault of who asked: Name goes into the answer.
type RequestError struct {
	Name    string
	Message string
}

// Error implements error.
func (e *RequestError) Error() string { return e.Message }

// adminBytes bounds the body of an admin request.
const adminBytes = 16 << 10

// repoStatus implements getRepoStatus (F70).
func (s *Surface) repoStatus(x *serve.Exchange) {
	did, ok := http1.QueryValue(x.Head.RawQuery, "did")
	if !ok || did == "" {
		s.refuse(x, refusedRequest, 400, "InvalidRequest", "did is needed")
		return
	}
	x.Keep()
	s.ask(x, func() ([]byte, error) {
		status, known, err := s.parts.Upstream.RepoStatus(did)
		switch {
		case err != nil:
			return nil, err
		case !known:
			return nil, &RequestError{Name: "RepoNotFound", Message: "no such repository here"}
		}
		return json.Marshal(status)
	})
}

// ask answers with what f returns, which it runs in a job.
func (s *Surface) ask(x *serve.Exchange, f func() ([]byte, error)) {
	err := x.Go(func() func(*serve.Exchange) {
		body, err := f()
		return func(x *serve.Exchange) {
			bad, faulty := errors.AsType[*RequestError](err)
			switch {
			case err == nil:
				s.answer(x, 200, body)
			case faulty:
				s.refuse(x, refusedRequest, 400, bad.Name, bad.Message)
			default:
				s.parts.Log.Error("firehose request failed", "error", err)
				s.refuse(x, refusedPublish, 503, "NotListening", "this cannot be done now", retryField)
			}
		}
	})
	if err != nil {
		s.refuse(x, refusedPublish, 503, "NotListening", "too many requests, try again", retryField)
	}
}

// action is what an admin route does with its body.
type action func(u Upstream, body []byte) error

// hostAction implements POST /admin/firehose/host.
func hostAction(u Upstream, body []byte) error {
	var ask struct{ Hostname, Action string }
	if err := json.Unmarshal(body, &ask); err != nil || ask.Hostname == "" {
		return &RequestError{Name: "InvalidRequest", Message: `the body is not {"hostname","action"}`}
	}
	return u.Host(ask.Hostname, ask.Action)
}

// accountAction implements POST /admin/firehose/account.
func accountAction(u Upstream, body []byte) error {
	var ask struct{ DID, Action string }
	if err := json.Unmarshal(body, &ask); err != nil || ask.DID == "" {
		return &RequestError{Name: "InvalidRequest", Message: `the body is not {"did","action"}`}
	}
	return u.Account(ask.DID, ask.Action)
}

// admin reads the body of an admin route and acts.
func (s *Surface) admin(x *serve.Exchange, act action) {
	if x.Head.ContentLength > adminBytes {
		s.refuse(x, refusedRequest, 413, "InvalidRequest", "the body is too large")
		return
	}
	x.Keep()
	x.ReadBody(&command{s: s, act: act})
}

// command is the body of an admin request. It implements serve.Body. Owned by
// the loop.
type command struct {
	s    *Surface
	act  action
	body []byte
}

// Data implements serve.Body.
func (b *command) Data(x *serve.Exchange, p []byte) {
	if len(b.body)+len(p) > adminBytes {
		b.s.refuse(x, refusedRequest, 413, "InvalidRequest", "the body is too large")
		return
	}
	b.body = append(b.body, p...)
}

// End implements serve.Body.
func (b *command) End(x *serve.Exchange) {
	b.s.ask(x, func() ([]byte, error) { return []byte("{}"), b.act(b.s.parts.Upstream, b.body) })
}

// Done implements serve.Body.
func (b *command) Done() {}
