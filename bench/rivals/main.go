package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/sluice-relay/sluice/bench/rivals/floor"
)

// The exit codes.
const (
	exitFailure  = 1
	exitUsage    = 2
	exitNoUring  = 3
	defaultLoops = 2
)

var errUsage = errors.New("usage: benchrivals NAME -addr HOST:PORT [-loops N] | benchrivals list")

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "benchrivals:", err)
	os.Exit(exitCode(err))
}

func exitCode(err error) int {
	switch {
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.Is(err, floor.ErrUringUnavailable):
		return exitNoUring
	}
	return exitFailure
}

// run does what the arguments say until the context ends.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	name := args[0]
	flags := flag.NewFlagSet("benchrivals", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	addr := flags.String("addr", "", "address to listen on")
	loops := flags.Int("loops", defaultLoops, "threads of a floor")
	if err := flags.Parse(args[1:]); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%w: what is %q?", errUsage, flags.Arg(0))
	}
	if name == "list" {
		for _, r := range rivals {
			fmt.Fprintf(out, "%-18s %s\n", r.name, r.about)
		}
		return nil
	}
	start, err := lookup(name)
	if err != nil {
		return err
	}
	if *addr == "" || *loops < 1 {
		return fmt.Errorf("%w: -addr is needed, -loops is at least 1", errUsage)
	}
	return serve(ctx, *addr, func() (rival, error) { return start(options{loops: *loops}) })
}

// serve starts a rival and then listens, so that an open port means that it is
// ready. It ends with the context.
func serve(ctx context.Context, addr string, start func() (rival, error)) error {
	r, err := start()
	if err != nil {
		return err
	}
	defer r.Close()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: r}
	end := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer end()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
