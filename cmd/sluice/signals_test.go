package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/config"
	"github.com/sluice-relay/sluice/internal/relay"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

// raise sends a signal to this process.
func raise(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(syscall.Getpid(), sig); err != nil {
		t.Fatal(err)
	}
}

// await waits for a channel.
func await(ch <-chan struct{}, what string) error {
	select {
	case <-ch:
		return nil
	case <-time.After(patience):
		return errors.New("not signalled: " + what)
	}
}

// isReady reports whether a channel has something or is closed.
func isReady(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// R460: the first SIGTERM or SIGINT ends the context, the second says to hurry,
// further ones change nothing, that is they do not kill the process while the
// relay drains.
func TestSignals(t *testing.T) {
	for _, first := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		draining := func(ctx context.Context, _ *slog.Logger, _ io.Writer, ctl relay.Control) error {
			if ctx.Err() != nil {
				return errors.New("ended before the signal")
			}
			raise(t, first)
			if err := await(ctx.Done(), "end"); err != nil {
				return err
			}
			if isReady(ctl.Hurry) || isReady(ctl.Reload) {
				return errors.New("one signal hurries or reloads")
			}
			raise(t, syscall.SIGINT)
			if err := await(ctl.Hurry, "hurry"); err != nil {
				return err
			}
			for _, again := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, first} {
				raise(t, again)
			}
			raise(t, syscall.SIGHUP)
			return await(ctl.Reload, "reload while draining")
		}
		if o := runWith(t, draining, nil, "serve"); o.code != exitOK {
			t.Errorf("%v: exit %d, stderr %q", first, o.code, o.stderr)
		}
	}
}

// C101: SIGHUP asks for a reload. Of those that come while one is asked for
// nothing is kept, and one that comes after it was taken asks again, so that
// the last change of the file is always read.
func TestC101Reload(t *testing.T) {
	reloading := func(ctx context.Context, _ *slog.Logger, _ io.Writer, ctl relay.Control) error {
		for range 3 {
			raise(t, syscall.SIGHUP)
			if err := await(ctl.Reload, "reload"); err != nil {
				return err
			}
		}
		for range 1000 {
			raise(t, syscall.SIGHUP)
		}
		// A flood of them does not push the end out.
		raise(t, syscall.SIGTERM)
		if err := await(ctx.Done(), "end after a flood"); err != nil {
			return err
		}
		if err := await(ctl.Reload, "reload after a flood"); err != nil {
			return err
		}
		if isReady(ctl.Hurry) {
			return errors.New("SIGHUP hurries")
		}
		return nil
	}
	if o := runWith(t, reloading, nil, "serve"); o.code != exitOK {
		t.Errorf("exit %d, stderr %q", o.code, o.stderr)
	}
}

// C101: a SIGHUP that comes before the relay is up does not kill the process
// and is not lost.
func TestC101EarlyHangup(t *testing.T) {
	raised := false
	a := app{
		lookup: func(string) (string, bool) { // while the environment is read
			if !raised {
				raised = true
				raise(t, syscall.SIGHUP)
			}
			return "", false
		},
		stdout: io.Discard,
		stderr: io.Discard,
	}
	served := false
	a.serve = withControl(func(ctl relay.Control) error {
		served = true
		return await(ctl.Reload, "reload")
	})
	if code := a.main(t.Context(), []string{"sluice", "serve"}); code != exitOK || !served || !raised {
		t.Errorf("exit %d, served %v, raised %v", code, served, raised)
	}
}

// Signals are given back, so that a test binary can be interrupted, and the
// goroutine that handed them on ends.
func TestSignalsAreReleased(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 50 {
		ctx, _, release := catchSignals(t.Context())
		release()
		if ctx.Err() == nil {
			t.Fatal("the context outlives the release")
		}
	}
	// Package os/signal starts one of its own, once.
	eventually(t, "the goroutines end", func() bool { return runtime.NumGoroutine() <= before+2 })
}

// C101, in a process of its own: a token is rotated without a restart. Streams
// stay, the old token ends, and a file that is wrong changes nothing.
func TestC101RotateToken(t *testing.T) {
	path := tokenFile(t, "old\n")
	p := startProcess(t, "", "AEP_TOKEN_FILE="+path)
	status := func(token string) int {
		t.Helper()
		res, err := http.Get("http://" + p.addr + "/connections?access_token=" + token)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	reload := func(text string, want map[string]int) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(patience)
		for token, code := range want {
			for status(token) != code {
				if time.Now().After(deadline) {
					t.Fatalf("%q after a reload of %q: %d, want %d", token, text, status(token), code)
				}
				time.Sleep(time.Millisecond) // polling
			}
		}
	}
	stream, err := relaytest.OpenStream(p.addr, "/stream?access_token=old", relaytest.StreamOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if status("old") != http.StatusOK || status("new") != http.StatusUnauthorized {
		t.Fatal("the token file is not in force from the start")
	}
	reload("old\nnew\n", map[string]int{"old": http.StatusOK, "new": http.StatusOK})
	reload("new\n", map[string]int{"old": http.StatusUnauthorized, "new": http.StatusOK})
	for _, wrong := range []string{"", "# new\n", "new\nb c\n"} {
		reload(wrong, map[string]int{"new": http.StatusOK, "": http.StatusUnauthorized})
	}
	reload("last\n", map[string]int{"last": http.StatusOK, "new": http.StatusUnauthorized})

	event := relaytest.Padded("s1", 0, "info", 300).JSON()
	req, err := http.NewRequest(http.MethodPost, "http://"+p.addr+"/events", strings.NewReader(event))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("AEP-Version", "0.1")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer last")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		t.Fatalf("POST /events with the last token: %s", res.Status)
	}
	for {
		b, err := stream.Next(patience)
		if err != nil {
			t.Fatalf("C101: the stream did not outlive the reloads: %v", err)
		}
		if strings.Contains(fmt.Sprint(b), event) {
			break
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// C101 and R460: signals without pause, from the first line to the last
// breath, do not change how the process ends.
func TestC101HangupNeverKills(t *testing.T) {
	for range 5 {
		p := startProcess(t, "", "AEP_TOKEN_FILE="+tokenFile(t, "x"))
		stop := make(chan struct{})
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
					// An error is that the process is gone.
					_ = p.cmd.Process.Signal(syscall.SIGHUP)
					_ = p.cmd.Process.Signal(syscall.SIGINT)
				}
			}
		}()
		code := p.exit(t)
		close(stop)
		<-stopped
		if code != 0 {
			t.Fatalf("exit code %d, want 0", code)
		}
	}
}

// withControl makes a relay of a function that needs its controls only.
func withControl(
	f func(relay.Control) error,
) func(context.Context, config.Config, *slog.Logger, io.Writer, relay.Control) error {
	return func(_ context.Context, _ config.Config, _ *slog.Logger, _ io.Writer, ctl relay.Control) error {
		return f(ctl)
	}
}
