package main

import (
	"fmt"
	"sync"
	"testing"
)

// forEachRival runs a test on all rivals.
func forEachRival(t *testing.T, test func(t *testing.T, name, addr string)) {
	for _, r := range rivals {
		t.Run(r.name, func(t *testing.T) { test(t, r.name, startRival(t, r.name)) })
	}
}

// TestFanOut checks every frame of every consumer, in order and byte by byte,
// while one consumer reads nothing until the others have all.
func TestFanOut(t *testing.T) {
	const consumers, count, size, batch = 50, 200, 16 << 10, 8
	forEachRival(t, func(t *testing.T, name, addr string) {
		d := dialectOf(name)
		list := events(count, size, "s0")
		want := make([]string, count)
		for i, e := range list {
			want[i] = d.frame("", e)
		}
		slow := subscribe(t, addr, d, "", true)
		errs := make(chan error, consumers-1)
		for i := range consumers - 1 {
			s := subscribe(t, addr, d, "", false)
			go func() {
				err := s.expect(want)
				if err != nil {
					err = fmt.Errorf("consumer %d: %w", i, err)
				}
				errs <- err
			}()
		}
		publisher := dial(t, addr, "/pub", false)
		for i := 0; i < count; i += batch {
			publisher.send(list[i : i+batch]...)
		}
		for range consumers - 1 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if err := slow.expect(want); err != nil {
			t.Errorf("slow consumer: %v", err)
		}
	})
}

// TestTopics checks that a topic's consumer gets its events only, and one
// without a topic gets all.
func TestTopics(t *testing.T) {
	forEachRival(t, func(t *testing.T, name, addr string) {
		d := dialectOf(name)
		topics := []string{"a", "b", "c"}
		list := events(90, 300, topics...)
		var wg sync.WaitGroup
		for _, topic := range []string{"", "a", "b", "b"} {
			var want []string
			for i, e := range list {
				if topic == "" || topic == topics[i%len(topics)] {
					want = append(want, d.frame(topic, e))
				}
			}
			s := subscribe(t, addr, d, topic, false)
			wg.Go(func() {
				if err := s.expect(want); err != nil {
					t.Errorf("topic %q: %v", topic, err)
				}
			})
		}
		publisher := dial(t, addr, "/pub?topics=1", false)
		publisher.send(list[:10]...)
		for _, e := range list[10:] {
			publisher.send(e)
		}
		wg.Wait()
	})
}

// TestComingAndGoing checks that consumers who leave disturb nobody, and that
// one who comes later gets what is published from then on.
func TestComingAndGoing(t *testing.T) {
	forEachRival(t, func(t *testing.T, name, addr string) {
		d := dialectOf(name)
		list := events(60, 600, "s0")
		want := make([]string, len(list))
		for i, e := range list {
			want[i] = d.frame("", e)
		}
		staying := subscribe(t, addr, d, "", false)
		leaving := subscribe(t, addr, d, "", false)
		publisher := dial(t, addr, "/pub", false)
		publisher.send(list[:20]...)
		for _, s := range []*socket{staying, leaving} {
			if err := s.expect(want[:20]); err != nil {
				t.Fatal(err)
			}
		}
		_ = leaving.conn.Close()
		late := subscribe(t, addr, d, "", false)
		publisher.send(list[20:]...)
		for _, s := range []*socket{staying, late} {
			if err := s.expect(want[20:]); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestIngestFansOut checks that posted events reach the consumers once.
func TestIngestFansOut(t *testing.T) {
	forEachRival(t, func(t *testing.T, name, addr string) {
		if isFloor(name) {
			t.Skip("a floor has no ingest")
		}
		d := dialectOf(name)
		list := events(20, 600, "s0")
		want := make([]string, len(list))
		for i, e := range list {
			want[i] = d.frame("s0", e)
		}
		s := subscribe(t, addr, d, "s0", false)
		post(t, addr, list[:10], 202)
		post(t, addr, list[:10], 202)
		post(t, addr, list[5:], 202)
		if err := s.expect(want); err != nil {
			t.Error(err)
		}
	})
}
