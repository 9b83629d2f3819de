package doctor

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"time"
)

// maxSkew is how far the clocks may be apart.
const maxSkew = 2 * time.Second

// foreignOrigin is one that no relay lists: the name cannot exist (RFC 6761).
const foreignOrigin = "https://sluice-doctor.invalid"

// checkHealth asks for the health, as a load balancer does (R50).
func (d *doctor) checkHealth(ctx context.Context) finding {
	d.sent = time.Now()
	a, err := d.ask(ctx, http.MethodGet, "/healthz", d.Relay.Token, nil)
	d.got = time.Now()
	if err != nil {
		d.dead = "there is no answer to GET /healthz"
		return fail("GET /healthz: "+err.Error(), "the port takes connections but does not answer: see the log of the relay, and of the proxy in front")
	}
	d.date = a.header
	var health struct {
		OK          bool   `json:"ok"`
		Sessions    *int64 `json:"sessions"`
		Subscribers int64  `json:"subscribers"`
		Connections int64  `json:"connections"`
		Uptime      int64  `json:"uptime_s"`
	}
	switch err := json.Unmarshal(a.body, &health); {
	case a.status != http.StatusOK:
		d.dead = "it does not answer as a relay"
		return fail("GET /healthz: "+a.told(), adviceStatus(a.status))
	case err != nil || !health.OK:
		d.dead = "it does not answer as a relay"
		return fail("GET /healthz says "+quote(string(a.body))+`, and not {"ok":true}`,
			"something else listens there, or a proxy answers by itself: check the URL")
	case health.Sessions == nil:
		return ok("it is well")
	}
	return ok("up for %v, %d sessions, %d subscribers, %d WebSockets",
		time.Duration(health.Uptime)*time.Second, *health.Sessions, health.Subscribers, health.Connections)
}

// checkToken finds out who may use the relay (R40, R41).
func (d *doctor) checkToken(ctx context.Context) finding {
	const path = "/.well-known/aep"
	without, err := d.ask(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return fail("GET "+path+": "+err.Error(), "see the log of the relay, and of the proxy in front")
	}
	d.open = without.status == http.StatusOK
	if without.status != http.StatusOK && without.status != http.StatusUnauthorized {
		d.dead = "it does not answer as a relay"
		return fail("GET "+path+" without a token: "+without.told(), adviceStatus(without.status))
	}
	if d.Relay.Token == "" {
		switch {
		case !d.open:
			d.dead = "the relay wants a token"
			return fail("the relay wants a token, and none was given", "set AEP_TOKEN or --token-file")
		case d.Relay.Local():
			return ok("none is asked for: whoever is on this machine may read and publish; commands are off")
		}
		return warn("none is asked for at an address that is not loopback: whoever reaches it may read and publish",
			"set AEP_TOKEN or AEP_TOKEN_FILE at the relay, or bind loopback")
	}
	with, err := d.ask(ctx, http.MethodGet, path, d.Relay.Token, nil)
	switch {
	case err != nil:
		return fail("GET "+path+" with the token: "+err.Error(), "see the log of the relay, and of the proxy in front")
	case with.status == http.StatusUnauthorized:
		d.dead = "the relay refuses the token"
		return fail("the relay refuses the token", "get the current one; at the relay, SIGHUP reads AEP_TOKEN_FILE again. "+
			"A proxy in front must pass Authorization on")
	case with.status != http.StatusOK:
		return fail("GET "+path+" with the token: "+with.told(), adviceStatus(with.status))
	case d.open:
		return warn("a token was given, and none is asked for: whoever reaches the relay may read and publish",
			"set AEP_TOKEN or AEP_TOKEN_FILE at the relay; if it is set, a proxy in front adds it for everyone")
	}
	wrong, err := d.ask(ctx, http.MethodGet, path, "wrong-"+rand.Text(), nil)
	switch {
	case err != nil:
		return fail("GET "+path+" with a wrong token: "+err.Error(), "see the log of the relay, and of the proxy in front")
	case wrong.status != http.StatusUnauthorized:
		return fail("a wrong token is answered "+wrong.told(), "a proxy in front puts the right one in its place, or caches answers: stop it from doing so")
	}
	return ok("the token is taken, none and a wrong one are refused")
}

// checkDiscovery reads the discovery document (R55).
func (d *doctor) checkDiscovery(ctx context.Context) finding {
	a, err := d.ask(ctx, http.MethodGet, "/.well-known/aep", d.Relay.Token, nil)
	if err != nil {
		return fail("GET /.well-known/aep: "+err.Error(), "see the log of the relay, and of the proxy in front")
	}
	var document struct {
		AEP          []string          `json:"aep"`
		Role         string            `json:"role"`
		Endpoints    map[string]string `json:"endpoints"`
		Capabilities struct {
			Experimental struct {
				Boot string `json:"boot"`
			} `json:"experimental"`
			Replay struct {
				Buffer int64 `json:"buffer"`
			} `json:"replay"`
		} `json:"capabilities"`
	}
	switch err := json.Unmarshal(a.body, &document); {
	case a.status != http.StatusOK:
		return fail("GET /.well-known/aep: "+a.told(), adviceStatus(a.status))
	case err != nil:
		return fail("GET /.well-known/aep is no discovery document: "+quote(string(a.body)), "something else answers there: check the URL")
	case !slices.Contains(document.AEP, "0.1"):
		return fail(fmt.Sprintf("it speaks AEP %s, and not 0.1", quote(fmt.Sprint(document.AEP))), "use a client for that version, or another relay")
	}
	d.boot = document.Capabilities.Experimental.Boot
	for name, path := range map[string]string{"events": "/events", "stream": "/stream", "socket": "/socket"} {
		if got := document.Endpoints[name]; got != path {
			return warn(fmt.Sprintf("its %s is at %s, and not at %s", name, quote(got), path), "clients of this program look at "+path)
		}
	}
	return ok("AEP 0.1, role %s, %d events a session for replays, boot %s",
		quote(document.Role), document.Capabilities.Replay.Buffer, quote(d.boot))
}

// checkClock compares the Date of the health's answer with the own clock.
func (d *doctor) checkClock(context.Context) finding {
	date, err := http.ParseTime(d.date.Get("Date"))
	if err != nil {
		return skip("the answers have no Date")
	}
	return skew(date, date.Add(time.Second), d.sent, d.got, "by the header Date")
}

// skew judges a clock that showed something between from and to while the own
// one showed something between sent and got.
func skew(from, to, sent, got time.Time, by string) finding {
	least, most := from.Sub(got), to.Sub(sent)
	between := (least + most) / 2
	if least > maxSkew || most < -maxSkew {
		return warn(fmt.Sprintf("the clocks are %v apart, %s", between.Abs().Round(100*time.Millisecond), by),
			"let both machines keep time with NTP: events are shown with the emitters' clocks, and tokens and certificates expire by them")
	}
	return ok("less than %v apart, %s", max(least.Abs(), most.Abs()).Round(100*time.Millisecond)+100*time.Millisecond, by)
}

// checkKeepAlive sends two requests, which should share a connection.
func (d *doctor) checkKeepAlive(ctx context.Context) finding {
	reused := false
	trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }}
	for range 3 { // the first may find no idle connection
		a, err := d.ask(httptrace.WithClientTrace(ctx, trace), http.MethodGet, "/healthz", d.Relay.Token, nil)
		if err != nil {
			return fail("GET /healthz: "+err.Error(), "see the log of the relay, and of the proxy in front")
		}
		if reused {
			return ok("connections are used again, %s", a.full.Proto)
		}
	}
	return warn("each request takes a connection of its own",
		"publishers get slow: let the proxy in front keep connections open (keepalive_timeout above 0 with nginx)")
}

// checkOrigin finds out what web pages may do (R36, R38).
func (d *doctor) checkOrigin(ctx context.Context) finding {
	a, err := d.ask(ctx, http.MethodOptions, "/stream", "", http.Header{
		"Origin": {foreignOrigin}, "Access-Control-Request-Method": {"GET"}, "Access-Control-Request-Headers": {"authorization"},
	})
	if err != nil {
		return fail("OPTIONS /stream: "+err.Error(), "see the log of the relay, and of the proxy in front")
	}
	if a.status != http.StatusNoContent || a.header.Get("Access-Control-Allow-Origin") != "*" {
		return warn("OPTIONS /stream: "+a.told()+", and not 204 with Access-Control-Allow-Origin: *",
			"web pages of other origins cannot follow: let the proxy in front pass OPTIONS on, and the headers Access-Control-* back")
	}
	a, err = d.ask(ctx, http.MethodGet, "/connections", d.Relay.Token, http.Header{"Origin": {foreignOrigin}})
	switch {
	case err != nil:
		return fail("GET /connections: "+err.Error(), "see the log of the relay, and of the proxy in front")
	case d.open && a.status == http.StatusOK:
		return warn("no token is asked for, and web pages of any origin are served",
			"any page that a browser here shows may read and publish: set AEP_TOKEN, or list origins instead of AEP_ORIGINS=*")
	case d.open && a.status == http.StatusForbidden:
		return ok("web pages of other origins are refused")
	case a.status != http.StatusOK:
		return fail("GET /connections: "+a.told(), adviceStatus(a.status))
	case a.header.Get("Access-Control-Allow-Origin") != "*":
		return warn("GET /connections lacks Access-Control-Allow-Origin: *",
			"web pages of other origins cannot follow: let the proxy in front pass the headers Access-Control-* on")
	}
	return ok("web pages of all origins are served if they have the token")
}

// notes what gives away that something is between here and the relay.
func (d *doctor) notes(h http.Header) string {
	var signs []string
	for _, name := range []string{"Via", "Server", "X-Cache", "Cf-Ray"} {
		if value := h.Get(name); value != "" {
			signs = append(signs, name+": "+quote(value))
		}
	}
	if len(signs) == 0 {
		return ""
	}
	return " (behind a proxy: " + strings.Join(signs, ", ") + ")"
}
