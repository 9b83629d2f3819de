package firehoseload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/codec/firehose"
)

// checkEvery is how many frames there are to one whose structure is checked
// again behind the relay.
const checkEvery = 16

// upstreams measures how fast a host's stream is decoded, verified, numbered
// anew and written, with the check of F66 and without it, in turns.
func (s *suite) upstreams(ctx context.Context) error {
	modes := []string{"structure", "off"}
	rates, cpus := make([][]float64, len(modes)), make([][]float64, len(modes))
	for round := range s.o.Rounds {
		for i, mode := range modes {
			rate, cpu, err := s.upstream(ctx, mode)
			if err != nil {
				return err
			}
			rates[i], cpus[i] = append(rates[i], rate), append(cpus[i], cpu)
			s.say("upstream, round %d, FIREHOSE_VERIFY=%s: %.0f frames/s, %.2f us each", round+1, mode, rate, cpu)
		}
	}
	name := fmt.Sprintf("stream of a host, %d commits of %d repositories", s.o.Upstream, repositories)
	for i, mode := range modes {
		s.add(name, "frames/s; CPU of a frame, `FIREHOSE_VERIFY="+mode+"`", "%.0f; %.2f us", median(rates[i]), median(cpus[i]))
	}
	return nil
}

// upstream has a fresh relay take one stream, and checks what comes out: all
// frames, with the relay's own numbers.
func (s *suite) upstream(ctx context.Context, verify string) (perSecond, micros float64, err error) {
	src, err := startChild(s.p.Source(s.o.Upstream))
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, src.stop()) }()
	r, err := s.p.start("FIREHOSE_UPSTREAMS=ws://"+src.addr, "FIREHOSE_VERIFY="+verify,
		"FIREHOSE_REPLAY_FRAMES=1000000", "FIREHOSE_REPLAY_BYTES=1000000000")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	if line, err := src.line(); err != nil || line != connected {
		return 0, 0, fmt.Errorf("firehoseload: the relay did not connect to the source: %q, %v", line, err)
	}
	witness, err := s.consumersOf(r.Addr, 1)
	if err != nil {
		return 0, 0, err
	}
	defer witness.close()
	witness.check = checker()
	began := time.Now()
	cpu, err := cpuOf(r.PID(), func() error {
		if _, err := src.in.Write([]byte("go\n")); err != nil {
			return err
		}
		witness.expect(s.o.Upstream)
		return witness.await(ctx)
	})
	n := float64(s.o.Upstream)
	return n / time.Since(began).Seconds(), float64(cpu) / float64(time.Microsecond) / n, err
}

// checker returns a check of the structure of some messages (F66).
func checker() func(message []byte) error {
	scanner, n := firehose.Scanner{MaxFrameBytes: firehose.MaxFrameBytes}, 0
	var frame firehose.Frame
	return func(message []byte) error {
		if n++; n%checkEvery != 1 {
			return nil
		}
		if err := scanner.Scan(message[messageHeader:], &frame); err != nil {
			return err
		}
		_, err := scanner.Verify(&frame)
		return err
	}
}
