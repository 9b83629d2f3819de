package firehosefaults

import "testing"

// TestCleanStop: hard cases 9 and 42: a relay is told to end under publishers.
// Every consumer is sent every frame that was answered, one that had read
// nothing until then too, and then TCP ends without a close frame (F48). After
// the next start the last number is a cursor that has missed nothing.
func TestCleanStop(t *testing.T) {
	dir := t.TempDir()
	book := newLedger()
	p := start(t, dir)
	pub := newPublisher(p.Addr)
	defer pub.close()
	late, err := subscribe(p.Addr, noCursor, 0)
	if err != nil {
		t.Fatal(err)
	}
	live := follow(t, p.Addr, noCursor)
	zero := follow(t, p.Addr, 0)
	crowd := startCrowd(pub, book, 4, 1)
	await(t, "500 frames", func() bool { return crowd.soFar() >= 500 })
	middle := follow(t, p.Addr, 250)
	await(t, "1,500 frames", func() bool { return crowd.soFar() >= 1500 })
	if err := p.Terminate(); err != nil {
		t.Fatal(err)
	}
	behind := late.follow(t)
	if err := p.AwaitExit(); err != nil {
		t.Error(err)
	}
	crowd.wait(t)
	healthy(t, p)
	for name, f := range map[string]*follower{"live": live, "cursor 0": zero, "late": behind} {
		book.run(t, name, f.end(t), false, 1)
		if f.last() < crowd.answered {
			t.Errorf("case 42: %s has frames up to %d, %d was answered", name, f.last(), crowd.answered)
		}
	}
	book.run(t, "cursor 250", middle.end(t), false, 251)
	if middle.last() < crowd.answered {
		t.Errorf("case 42: cursor 250 has frames up to %d, %d was answered", middle.last(), crowd.answered)
	}

	last := book.top()
	p = start(t, dir)
	after := newPublisher(p.Addr)
	defer after.close()
	resumed, older := follow(t, p.Addr, last), follow(t, p.Addr, last-1)
	oldest, future := follow(t, p.Addr, 0), follow(t, p.Addr, last+1)
	for range 10 {
		after.must(t, book, newRepo(0).identity())
	}
	if book.top() != last+10 {
		t.Errorf("F25: numbers up to %d after 10 frames and a clean stop at %d", book.top(), last)
	}
	for _, f := range []*follower{resumed, older, oldest} {
		await(t, "the frames after the start", func() bool { return f.last() == last+10 })
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	book.run(t, "case 9: cursor L", resumed.end(t), false, last+1)
	book.run(t, "cursor L-1", older.end(t), true, last+1)
	book.run(t, "cursor 0", oldest.end(t), true, last+1)
	wantFuture(t, future)
}

// TestCleanStopWithStalled: F48: a consumer takes nothing while the relay ends. It
// is cut after some seconds, without a close frame, and the stop is a clean one for
// everybody else: numbers go on, and the last one has missed nothing.
func TestCleanStopWithStalled(t *testing.T) {
	dir := t.TempDir()
	book := newLedger()
	p := start(t, dir)
	pub := newPublisher(p.Addr)
	defer pub.close()
	stalled, err := subscribe(p.Addr, noCursor, stalledRead)
	if err != nil {
		t.Fatal(err)
	}
	ended, err := subscribe(p.Addr, 1<<40-1, stalledRead) // FutureCursor; it answers no Close
	if err != nil {
		t.Fatal(err)
	}
	defer ended.close()
	live := follow(t, p.Addr, noCursor)
	const frames = 200 // far more than the sockets take
	for r := newRepo(1); book.top() < frames; {
		pub.must(t, book, r.commit(stalledRecord))
	}
	if err := p.Terminate(); err != nil {
		t.Fatal(err)
	}
	book.run(t, "one that reads", live.end(t), false, 1)
	if live.last() != frames {
		t.Errorf("F48: a consumer has %d of %d frames", live.last(), frames)
	}
	if err := p.AwaitExit(); err != nil {
		t.Errorf("F48: the stop is an orderly one: %v", err)
	}
	cut := stalled.follow(t).end(t)
	book.run(t, "the stalled one", cut, false, 1)
	if len(cut) == 0 || len(cut) == frames {
		t.Errorf("the stalled consumer had taken %d of %d frames", len(cut), frames)
	}
	first, _, got := publishSome(t, book, dir, "auto", 3, frames, frames-1)
	if first != frames+1 {
		t.Errorf("F25: number %d after a clean stop at %d", first, frames)
	}
	book.run(t, "cursor L", got[0].end(t), false, first)
	book.run(t, "cursor L-1", got[1].end(t), true, first)
}
