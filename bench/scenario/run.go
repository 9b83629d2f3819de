package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/bench/load"
	"github.com/sluice-relay/sluice/bench/report"
)

const (
	// loadPatience bounds one load; a rival that does not come to an end in
	// it has lost something.
	loadPatience    = 60 * time.Second
	connectPatience = 60 * time.Second
)

// ErrFailed tells that the relay failed under a load.
var ErrFailed = errors.New("scenario: failed")

// Run runs what the options ask for and returns the results, in the order in
// which they were measured. A load that fails is a result without numbers; when
// it was the relay that failed, Run says so by ErrFailed, after all others.
func Run(ctx context.Context, o Options) ([]report.Result, error) { return run(ctx, o, Suite()) }

func run(ctx context.Context, o Options, suite []Scenario) ([]report.Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	steps, err := o.plan(suite)
	if err != nil {
		return nil, err
	}
	var results []report.Result
	var failed error
	missing := map[string]bool{} // targets that cannot run here
	for i, s := range steps {
		if missing[s.target] {
			continue
		}
		at := Step{
			Number: i + 1, Of: len(steps), Scenario: s.s.Name, Target: s.target, Round: s.round, Rounds: s.s.Rounds,
		}
		o.tell(at)
		began := time.Now()
		r := &runner{o: &o, step: s}
		err := r.run(ctx)
		if ctx.Err() != nil {
			return results, ctx.Err()
		}
		missing[s.target] = errors.Is(err, ErrUnavailable)
		results = append(results, r.finish(err)...)
		if s.round == 1 && s.target == s.s.Targets[0] {
			results = append(results, s.s.absent()...)
		}
		if err != nil && s.target == report.TargetSluice {
			failed = errors.Join(failed, fmt.Errorf("%w: %s: %w", ErrFailed, s.s.Name, err))
		}
		at.Done, at.Took, at.Text = true, time.Since(began), r.summary(err)
		o.tell(at)
	}
	return results, failed
}

// absent returns a result for each target that there is none of.
func (s *Scenario) absent() (results []report.Result) {
	for target, why := range s.Absent {
		for _, l := range s.Loads {
			results = append(results, report.Result{
				Scenario: l.Name, Title: l.Title, Target: target, Round: 1, Skipped: true, Note: why,
			})
		}
	}
	return results
}

func (o *Options) tell(s Step) {
	if o.Progress != nil {
		o.Progress(s)
	}
}

// runner runs one step.
type runner struct {
	o    *Options
	step step

	t       target
	server  *server
	client  *load.Client
	baseRSS int64 // of the server without connections
	idleRSS int64 // with all of them
	events  int   // published so far
	ended   bool  // the server was gone before it was stopped
	results []report.Result
}

// run runs all loads of the step.
func (r *runner) run(ctx context.Context) (err error) {
	s := &r.step.s
	r.t = targetOf(r.step.target)
	env := append(append([]string(nil), r.o.Env...), s.Env...)
	if r.server, err = start(ctx, r.o, r.t, env); err != nil {
		return err
	}
	defer func() {
		r.ended = !r.server.alive()
		r.server.stop()
	}()
	if r.client, err = load.New(load.Options{Addr: r.server.addr, Timeout: connectPatience, AllAtOnce: s.Herd}); err != nil {
		return err
	}
	defer r.client.Close()
	if s.Herd {
		return r.herd(ctx)
	}
	if err := r.connect(ctx); err != nil {
		return err
	}
	for _, l := range s.Loads {
		if err := r.load(ctx, l); err != nil {
			return fmt.Errorf("%s: %w", l.Name, err)
		}
		if r.o.During == nil || r.step.target != report.TargetSluice || l.Name == "" || l.Kind == Idle {
			continue
		}
		if err := r.load(ctx, l.longer(r.results[len(r.results)-1].Wall, r.o.Length)); err != nil {
			return fmt.Errorf("%s, watched: %w", l.Name, err)
		}
	}
	return nil
}

// load puts one load on the connections.
func (r *runner) load(ctx context.Context, l Load) error {
	switch l.Kind {
	case Ingest:
		return r.ingest(ctx, l)
	case Idle:
		r.idle(l)
		return nil
	default:
		return r.fanOut(ctx, l)
	}
}

// connect opens the consumers and waits until the server has settled.
func (r *runner) connect(ctx context.Context) (err error) {
	s := &r.step.s
	if s.Consumers == 0 {
		return nil
	}
	if r.baseRSS, err = load.RSSBytes(r.server.pid()); err != nil {
		return err
	}
	if _, err = r.client.Connect(ctx, r.classes()); err != nil {
		return err
	}
	select { // what is measured is a server that is left alone
	case <-time.After(s.Settle):
	case <-ctx.Done():
		return ctx.Err()
	}
	r.idleRSS, err = load.RSSBytes(r.server.pid())
	return err
}

// result begins the result of one load.
func (r *runner) result(l Load) report.Result {
	s := &r.step.s
	res := report.Result{
		Scenario: l.Name, Title: l.Title, Target: r.step.target, Round: r.step.round,
		Consumers: s.Consumers, SizeBytes: l.SizeBytes, Window: l.Window, Rate: l.Rate,
	}
	if s.Consumers > 0 {
		v := float64(r.idleRSS-r.baseRSS) / float64(s.Consumers+s.Stalled)
		res.IdleBytesPerConn = &v
	}
	return res
}

func (r *runner) idle(l Load) { r.results = append(r.results, r.result(l)) }

// finish returns the results, with a note for what did not come to one.
func (r *runner) finish(err error) []report.Result {
	if err == nil {
		return r.results
	}
	note := err.Error()
	if r.ended {
		note += "; the server has ended: " + r.server.log.String()
	}
	for _, l := range r.step.s.Loads {
		if l.Name == "" || r.has(l.Name) {
			continue
		}
		res := r.result(l)
		res.IdleBytesPerConn, res.Skipped, res.Note = nil, true, note
		r.results = append(r.results, res)
	}
	return r.results
}

func (r *runner) has(name string) bool {
	for i := range r.results {
		if r.results[i].Scenario == name {
			return true
		}
	}
	return false
}
