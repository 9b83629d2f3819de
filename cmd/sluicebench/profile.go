package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/bench/report"
	"github.com/sluice-relay/sluice/bench/scenario"
	"github.com/sluice-relay/sluice/internal/cmdline"
)

const flagLength = "length"

const profileHelp = `Runs loads of the suite against the relay and records its CPU, heap, lock and
wait profiles meanwhile, one file each, as LOAD.cpu.pprof and so on.

   sluicebench profile --out profiles/out
   sluicebench profile --only fanout-ws-10k-one --length 20s
   go tool pprof -http=: bin/sluice profiles/out/fanout-ws-1k-one.cpu.pprof`

// profiled are the scenarios whose profiles stand for the relay's work as a
// whole: what the compiler is told of is merged from them.
var profiled = []string{"fanout-ws-1k-*", "fanout-sse-1k-one", "filters-10k", "ceilings-mixed", "ingest"}

// profileCommand records profiles.
func (a *app) profileCommand() *cli.Command {
	return &cli.Command{
		Name:            "profile",
		Usage:           "record profiles of the relay under the suite's loads",
		Description:     profileHelp,
		HideHelpCommand: true,
		OnUsageError:    cmdline.OnUsageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: flagRelay, Value: "bin/sluice", Usage: "`PATH` of the relay"},
			&cli.StringSliceFlag{Name: flagOnly, Value: profiled, Usage: "`PATTERN` of scenarios, may be repeated"},
			&cli.StringSliceFlag{Name: flagEnv, Usage: "`NAME=VALUE` for the relay, may be repeated"},
			&cli.StringFlag{Name: flagOut, Value: "profiles/out", Usage: "`DIR` for the profiles"},
			&cli.DurationFlag{Name: flagLength, Value: 8 * time.Second, Usage: "`DURATION` of each profile, at least 1s"},
		},
		Action: a.runProfile,
	}
}

func (a *app) runProfile(ctx context.Context, cmd *cli.Command) error {
	if err := cmdline.NoArguments(cmd); err != nil {
		return err
	}
	length := cmd.Duration(flagLength)
	if length < time.Second {
		return cmdline.UsageError{Err: fmt.Errorf("--%s %v is less than 1s", flagLength, length)}
	}
	dir := cmd.String(flagOut)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	ctx, release := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer release()
	r := recorder{dir: dir, length: length}
	_, err := scenario.Run(ctx, scenario.Options{
		Relay: cmd.String(flagRelay), Only: cmd.StringSlice(flagOnly), Env: cmd.StringSlice(flagEnv),
		Targets: []string{report.TargetSluice}, Rounds: 1,
		Progress: progress(a.stderr), During: r.record,
		// Events for a second more: a profile of a relay that has nothing left
		// to do says less.
		Length: length + time.Second,
	})
	if errors.Is(err, scenario.ErrNothing) {
		return cmdline.UsageError{Err: fmt.Errorf("%w: sluicebench list names the scenarios", err)}
	}
	return errors.Join(err, r.err)
}

// recorder fetches profiles while a load runs.
type recorder struct {
	dir    string
	length time.Duration

	mu  sync.Mutex
	err error // guarded by mu
}

// record implements scenario.Options.During.
func (r *recorder) record(load, admin string) {
	seconds := fmt.Sprint("?seconds=", int(r.length.Seconds()))
	var all sync.WaitGroup
	for name, page := range map[string]string{
		"cpu": "profile" + seconds, "mutex": "mutex" + seconds, "block": "block" + seconds,
	} {
		all.Go(func() { r.fetch(load, name, admin, page) })
	}
	all.Wait()
	r.fetch(load, "heap", admin, "heap")
}

// fetch writes one profile into its file.
func (r *recorder) fetch(load, name, admin, page string) {
	err := func() (err error) {
		c := http.Client{Timeout: r.length + time.Minute}
		resp, err := c.Get("http://" + admin + "/debug/pprof/" + page)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("profile %s: %s", page, resp.Status)
		}
		f, err := os.Create(filepath.Join(r.dir, load+"."+name+".pprof"))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		_, err = io.Copy(f, resp.Body)
		return err
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = errors.Join(r.err, err)
}
