package sync

import (
	"errors"

	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/codec/syncwire"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/internal/store"
)

// storeCodes say what an error of the store is answered with.
var storeCodes = []struct {
	err     error
	code    syncwire.Code
	message string
}{
	{store.ErrUnknownOwner, syncwire.UnknownOwner, "this relay does not know the owner"},
	{store.ErrUnauthorized, syncwire.Unauthorized, "the token is not the owner's"},
	{store.ErrOwnerClosed, syncwire.OwnerClosed, "the owner was closed"},
	{store.ErrOwnerLimit, syncwire.OwnerLimit, "this relay takes no more owners"},
	{store.ErrQuota, syncwire.QuotaExceeded, "the owner's quota would be exceeded"},
	{store.ErrRelayFull, syncwire.RelayFull, "this relay is full"},
	{store.ErrUnknownBlob, syncwire.UnknownBlob, "the owner has no such chunk here"},
	{store.ErrStaleCursor, syncwire.StaleCursor, "the cursor is not of this store"},
	{store.ErrBusy, syncwire.Busy, "try again"},
	{store.ErrDiskFull, syncwire.Busy, "no room for writing now"},
	{store.ErrStopped, syncwire.Busy, "this relay is stopping"},
}

// Header fields. CORS is on every answer (S3), no-store on all but chunks (S6).
var (
	originField  = http1.Field{Name: "Access-Control-Allow-Origin", Value: "*"}
	exposeField  = http1.Field{Name: "Access-Control-Expose-Headers", Value: "ETag, Content-Length, Retry-After"}
	noStoreField = http1.Field{Name: "Cache-Control", Value: "no-store"}
	jsonField    = http1.Field{Name: "Content-Type", Value: "application/json; charset=utf-8"}

	emptyFields     = []http1.Field{originField, exposeField, noStoreField}
	jsonFields      = []http1.Field{originField, exposeField, noStoreField, jsonField}
	preflightFields = []http1.Field{
		originField, exposeField, noStoreField,
		{Name: "Access-Control-Allow-Methods", Value: "GET, HEAD, POST, PUT, OPTIONS"},
		{Name: "Access-Control-Allow-Headers", Value: "Authorization, Content-Type"},
		{Name: "Access-Control-Max-Age", Value: "86400"},
	}
	unreadFields       = []http1.Field{originField, {Name: "Content-Type", Value: "text/plain; charset=utf-8"}}
	unreadBusyFields   = with(unreadFields, http1.Field{Name: "Retry-After", Value: "1"})
	unauthorizedFields = with(jsonFields, http1.Field{Name: "WWW-Authenticate", Value: "Bearer"})
	disabledFields     = with(jsonFields, http1.Field{Name: "Retry-After", Value: "300"})
	busyFields         = with(jsonFields, http1.Field{Name: "Retry-After", Value: "1"})
	waitingFields      = with(jsonFields, http1.Field{Name: "Retry-After", Value: "5"})
)

// Refusals has the answers that the connection gives by itself, to requests for
// own paths and, without a path, to what could not be read: a browser has to see
// those too (S3, S4). It is serve.Config.Refusals for the paths of Owns.
func (s *Surface) Refusals(path []byte) serve.Refusal {
	switch {
	case path == nil:
		return refuseUnread
	case s.Owns(path):
		return refuseOwn
	}
	return nil
}

// refuseOwn is what is said about an own path. What the client had no time for,
// or came at a bad time with, is busy: it may try again.
func refuseOwn(status int, reason string) http1.Response {
	code := syncwire.BadRequest
	switch status {
	case 408, 429, 503:
		code = syncwire.Busy
		status = code.Status()
	}
	return http1.Response{Status: status, Fields: fieldsOf(code), Body: syncwire.AppendError(nil, code, reason)}
}

// refuseUnread is what is said when nobody knows whose path it was.
func refuseUnread(status int, reason string) http1.Response {
	fields := unreadFields
	if status == 429 {
		fields = unreadBusyFields
	}
	return http1.Response{Status: status, Fields: fields, Body: append([]byte(reason), '\n')}
}

func with(fields []http1.Field, more http1.Field) []http1.Field {
	return append(fields[:len(fields):len(fields)], more)
}

func fieldsOf(c syncwire.Code) []http1.Field {
	switch c {
	case syncwire.Unauthorized:
		return unauthorizedFields
	case syncwire.WritesDisabled:
		return disabledFields
	case syncwire.Busy:
		return busyFields
	case syncwire.TooManyWaiting:
		return waitingFields
	}
	return jsonFields
}

// respond answers with JSON, borrowed until return. What is left of a body is
// read and dropped by the connection, so that the answer is seen (S46).
func respond(x *serve.Exchange, body []byte) {
	x.Respond(&http1.Response{Status: 200, Fields: jsonFields, Body: body, KeepAlive: true})
}

// refuse answers with an error (S4).
func (s *Surface) refuse(x *serve.Exchange, c syncwire.Code, message string) {
	s.refuseHead(x, false, c, message)
}

// refuseHead is refuse for a method that may be HEAD, whose answers have no
// body.
func (s *Surface) refuseHead(x *serve.Exchange, head bool, c syncwire.Code, message string) {
	s.refusedWith(x, head, c, fieldsOf(c), message)
}

func (s *Surface) refusedWith(x *serve.Exchange, head bool, c syncwire.Code, fields []http1.Field, message string) {
	if !x.Alive() {
		return
	}
	s.count(c)
	x.Respond(&http1.Response{
		Status: c.Status(), Fields: fields, Body: syncwire.AppendError(nil, c, message), NoBody: head, KeepAlive: true,
	})
}

// refuseFault answers with a fault of the request, as a syncwire decoder found
// it.
func (s *Surface) refuseFault(x *serve.Exchange, fault error) {
	code := syncwire.BadRequest
	var e *syncwire.Error
	if errors.As(fault, &e) {
		code = e.Code
	}
	s.refuse(x, code, fault.Error())
}

// fail answers with what an error of the store means. One that it does not name
// is logged: never with what was asked (S8).
func (s *Surface) fail(x *serve.Exchange, head bool, err error) {
	for i := range storeCodes {
		if c := &storeCodes[i]; errors.Is(err, c.err) {
			s.refuseHead(x, head, c.code, c.message)
			return
		}
	}
	s.log.Error("sync store failed", "error", err)
	s.refuseHead(x, head, syncwire.Internal, "internal error")
}
