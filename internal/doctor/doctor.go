package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/client/render"
)

// Verdict is what a check comes to.
type Verdict string

// The verdicts. Skip is of a check that was not made.
const (
	OK   Verdict = "ok"
	Warn Verdict = "warn"
	Fail Verdict = "fail"
	Skip Verdict = "skip"
)

const (
	// DefaultTimeout is that of each check.
	DefaultTimeout = 5 * time.Second

	// DefaultAdmin is where a relay's admin listener is by default.
	DefaultAdmin = "http://127.0.0.1:8788"

	// heartbeatInterval is that of the contract (R274, R330), heartbeatSlack what
	// a busy relay may need more.
	heartbeatInterval = 25 * time.Second
	heartbeatSlack    = 5 * time.Second

	// slowAnswer is when the first block of a stream or an event is late: a relay
	// sends the one at once (R271) and delivers the other within milliseconds.
	slowAnswer = time.Second

	// maxBody bounds what is read of an answer (DR2). Metrics are the longest.
	maxBody = 1 << 20
	// maxQuote is how much of an answer a finding repeats.
	maxQuote = 160
)

// Finding is what a check found.
type Finding struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Seen    string  `json:"seen"`
	// Advice says what to do, "" if nothing.
	Advice string `json:"advice,omitempty"`
	Millis int64  `json:"ms"` // how long the check took
}

// Report is all that was found.
type Report struct {
	Relay    string    `json:"relay"`
	Findings []Finding `json:"findings"`
	Warnings int       `json:"warnings"`
	Failures int       `json:"failures"`
}

// Options says what is checked.
type Options struct {
	Relay *client.Relay
	// Timeout is that of each check, DefaultTimeout if it is not above 0.
	Timeout time.Duration
	// Quick leaves out the heartbeat, which takes half a minute.
	Quick bool
	// Publish allows a test event in a session of its own.
	Publish bool
	// Admin is the base URL of the admin listener, "" for one not to look at.
	Admin string
	// AdminGiven tells that Admin was asked for, and is not a default.
	AdminGiven bool
	// Each is called with each finding when it is made, unless nil.
	Each func(Finding)

	// heartbeatInterval, heartbeatSlack and slowAnswer unless a test sets them.
	heartbeat, slack, slow time.Duration
}

// doctor is one examination. Fields below Options are what checks leave for
// those after them.
type doctor struct {
	Options
	http *http.Client // follows no redirect (DR3)

	report Report
	dead   string // why the checks that remain make no sense

	date   http.Header // of an answer, for the clock
	sent   time.Time   // when that was asked for
	got    time.Time   // and answered
	open   bool        // the relay asks for no token
	boot   string      // of the discovery document
	stream *stream     // for the heartbeat
	socket *socket     // for the heartbeat
	close  []func()    // what is to be closed at the end
}

// finding is a verdict with its texts, before the runner adds the rest.
type finding struct {
	verdict Verdict
	seen    string
	advice  string
}

func ok(format string, args ...any) finding { return finding{OK, fmt.Sprintf(format, args...), ""} }

func skip(format string, args ...any) finding { return finding{Skip, fmt.Sprintf(format, args...), ""} }

func warn(seen, advice string) finding { return finding{Warn, seen, advice} }

func fail(seen, advice string) finding { return finding{Fail, seen, advice} }

// Run makes all checks. The error is that of ctx, if it ended before.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.heartbeat <= 0 {
		o.heartbeat, o.slack = heartbeatInterval, heartbeatSlack
	}
	if o.slow <= 0 {
		o.slow = slowAnswer
	}
	plain := *o.Relay.HTTP
	plain.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	d := &doctor{Options: o, http: &plain, report: Report{Relay: o.Relay.String()}}
	defer d.end()
	for _, c := range []struct {
		name  string
		check func(context.Context) finding
	}{
		{"address", d.checkAddress},
		{"tls", d.checkTLS},
		{"health", d.checkHealth},
		{"token", d.checkToken},
		{"discovery", d.checkDiscovery},
		{"clock", d.checkClock},
		{"keep-alive", d.checkKeepAlive},
		{"origin", d.checkOrigin},
		{"stream", d.checkStream},
		{"compression", d.checkCompression},
		{"websocket", d.checkSocket},
		{"publish", d.checkPublish},
		{"admin", d.checkAdmin},
		{"heartbeat", d.checkHeartbeat},
	} {
		if err := d.run(ctx, c.name, c.check); err != nil {
			return d.report, err
		}
	}
	return d.report, nil
}

// run makes one check and reports it.
func (d *doctor) run(ctx context.Context, name string, check func(context.Context) finding) error {
	begin := time.Now()
	f := skip("%s", d.dead)
	if d.dead == "" {
		f = check(ctx)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	switch f.verdict {
	case Fail:
		d.report.Failures++
	case Warn:
		d.report.Warnings++
	}
	result := Finding{name, f.verdict, f.seen, f.advice, time.Since(begin).Milliseconds()}
	d.report.Findings = append(d.report.Findings, result)
	if d.Each != nil {
		d.Each(result)
	}
	return nil
}

func (d *doctor) end() {
	for _, f := range d.close {
		f()
	}
	d.http.CloseIdleConnections()
}

// answer is a short answer, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
	full   *http.Response
}

// ask sends one request, with the token if withToken, and reads the answer.
func (d *doctor) ask(ctx context.Context, method, path, token string, header http.Header) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	request, err := d.Relay.Request(ctx, method, path, nil, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Del("Authorization")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for name, values := range header {
		request.Header[name] = values
	}
	return d.do(request)
}

func (d *doctor) do(request *http.Request) (*answer, error) {
	response, err := d.http.Do(request)
	if err != nil {
		return nil, reason(err)
	}
	return readAnswer(response)
}

// readAnswer reads an answer to its end, or to the bound.
func readAnswer(response *http.Response) (*answer, error) {
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return nil, reason(err)
	}
	return &answer{response.StatusCode, response.Header, body, response}, nil
}

// told returns what an answer says in a few words.
func (a *answer) told() string {
	text := fmt.Sprintf("%d %s", a.status, http.StatusText(a.status))
	if to := a.header.Get("Location"); to != "" {
		return text + " to " + quote(to)
	}
	if body := strings.TrimSpace(string(a.body)); body != "" {
		return text + ": " + quote(body)
	}
	return text
}

// quote makes a text from outside fit for a finding.
func quote(text string) string {
	text, _, cut := strings.Cut(text, "\n")
	if len(text) > maxQuote {
		text, cut = text[:maxQuote], true
	}
	if cut {
		text += "..."
	}
	return render.Escape(text)
}

// reason takes the request out of an error of net/http, and tells a timeout in
// plain words.
func reason(err error) error {
	var timeout interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return errTimeout
	}
	if inner := errors.Unwrap(err); inner != nil && strings.Contains(err.Error(), `": `) {
		err = inner
	}
	return errors.New(quote(err.Error()))
}

// errTimeout stands for all kinds of them.
var errTimeout = errors.New("no answer in time")

// adviceStatus says what to do about what a status means.
func adviceStatus(status int) string {
	switch {
	case status >= 300 && status < 400:
		return "give the address that it redirects to"
	case status == http.StatusForbidden:
		return "a relay without a token answers loopback names only: set AEP_TOKEN at the relay, or AEP_ORIGINS"
	case status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return "the proxy in front does not reach the relay, or the relay is full: is it running, and does the proxy's upstream name its address?"
	case status == http.StatusNotFound:
		return "something else listens there, or a proxy has the relay below another path: check the URL"
	case status == http.StatusTooManyRequests:
		return "a limit of requests is in force, of the relay (SLUICE_MAX_CONNS_PER_IP) or of a proxy"
	}
	return "see the log of the relay, and of the proxy in front"
}
