package syncmodel

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	seedFlag  = flag.Uint64("syncmodel.seed", 0, "seed of the first model run, 0 for a new one")
	seedsFlag = flag.Int("syncmodel.seeds", 0, "model runs of each kind, 0 for a few")
)

// run is one run of the model.
type run struct {
	*site
	world   *world
	fleet   fleet
	seed    uint64
	split   bool // pushes and pulls come alone too
	raise   bool // numbers are raised before devices see any (S29)
	copies  []copied
	faults  int
	atEnd   int // keys that were missed with an excuse
	skewed  map[*device]int
	writing int // counts events
}

// copied is a copy of the database as it was at a tick.
type copied struct {
	path string
	tick int
}

// TestModel runs the model with clock floors in this process.
func TestModel(t *testing.T) {
	models(t, scale(8, 3), 90, false, "SEQ_FLOOR=clock")
}

// TestModelAuto is TestModel with the default floor, for stores that were
// raised to it (S29): 10,000 numbers were issued before the devices see one.
func TestModelAuto(t *testing.T) {
	if raceDetector {
		t.Skip("10,000 numbers take minutes with the race detector; TestAutoRaised issues them too")
	}
	models(t, scale(3, 1), 60, false, "SEQ_FLOOR=auto")
}

// TestModelKill is TestModel with a relay in a process of its own, which is
// also ended by SIGKILL.
func TestModelKill(t *testing.T) {
	models(t, scale(3, 1), 60, true, "SEQ_FLOOR=clock")
}

func models(t *testing.T, seeds, steps int, own bool, floor string) {
	if *seedsFlag > 0 {
		seeds = *seedsFlag
	}
	first := *seedFlag
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	for i := range seeds {
		seed := first + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Logf("seed %d, repeat with -syncmodel.seed", seed)
			r := newRun(t, seed, own, floor)
			for step := range steps {
				r.world.tick = step
				r.step(r.rand(uint64(step)))
			}
			r.finish()
			t.Logf("%d edits, %d faults, %d losses, %d repairs, %d keys excused", len(r.world.edits), r.faults,
				r.world.losses, r.repairs(), r.atEnd)
		})
	}
}

// rand is the step's source: what a step does depends on the seed and its
// number alone, not on what came back before.
func (r *run) rand(step uint64) *rand.Rand { return rand.New(rand.NewPCG(r.seed, step)) }

func newRun(t *testing.T, seed uint64, own bool, floor string) *run {
	// A page of a few hundred bytes ends early, so drains have many (S36).
	r := &run{
		site: startSite(t, own, floor, "MAX_PULL_BYTES=3000"), seed: seed, world: newWorld(t),
		raise: floor == "SEQ_FLOOR=auto", skewed: map[*device]int{},
	}
	rng := r.rand(1 << 32)
	r.split = rng.IntN(2) == 0
	a := r.account("owner")
	for i := range 2 + rng.IntN(2) {
		d := r.world.device(a, string(rune('a'+i)))
		r.skewed[d] = rng.IntN(300)
		r.fleet = append(r.fleet, d)
	}
	r.raiseNumbers()
	return r
}

// raiseNumbers makes a new store issue the 10,000 numbers that raise it.
func (r *run) raiseNumbers() {
	if !r.raise {
		return
	}
	other := r.account("other")
	for i := range 10 {
		other.pushed(1000, 0, other.envelopes(i*1000, 1000)...)
	}
}

func (r *run) step(rng *rand.Rand) {
	d := r.fleet[rng.IntN(len(r.fleet))]
	d.batch, d.page = 1+rng.IntN(6), 1+rng.IntN(4)
	switch n := rng.IntN(100); {
	case n < 40:
		r.write(d, rng)
	case n < 75:
		r.allow(r.cycle(d, rng))
	case n < 88:
		r.fault(rng)
	default:
		r.faultMidPush(d, rng)
	}
}

// write makes a few events. The devices' clocks differ, so some come late, with
// ids below those that others hold already.
func (r *run) write(d *device, rng *rand.Rand) {
	for range 1 + rng.IntN(5) {
		r.writing++
		id := fmt.Sprintf("%06d-%05d-%s", 1000+10*r.world.tick+r.skewed[d]-rng.IntN(50), r.writing, d.name)
		stream := fmt.Sprintf("stream-%015d", rng.IntN(10))
		if rng.IntN(8) == 0 {
			stream = ""
		}
		d.write(id, stream, strings.Repeat("c", 1+rng.IntN(600)))
	}
}

func (r *run) cycle(d *device, rng *rand.Rand) error {
	if !r.split {
		return d.sync()
	}
	switch rng.IntN(5) {
	case 0:
		return d.push()
	case 1:
		return d.pullAll()
	case 2:
		return d.statusCheck()
	}
	return d.sync()
}

// allow takes what may happen to a device while faults go on.
func (r *run) allow(err error) {
	if err != nil && !errors.Is(err, errRetry) && !errors.Is(err, errRepaired) {
		r.t.Fatalf("tick %d: %v", r.world.tick, err)
	}
}

// fault does one thing to the relay.
func (r *run) fault(rng *rand.Rand) {
	r.faults++
	switch n := rng.IntN(8); n {
	case 0:
		r.compactAll()
	case 1:
		if path, ok := r.backup(); ok {
			r.copies = append(r.copies, copied{path, r.world.tick})
		}
	case 2: // pushes fail with 503 until the next start
		r.restart("WRITES_DISABLED=1")
	default:
		r.down(rng)
		r.up(rng)
	}
}

// faultMidPush takes the relay down while a device pushes.
func (r *run) faultMidPush(d *device, rng *rand.Rand) {
	r.faults++
	r.write(d, rng)
	d.batch = 1 + rng.IntN(3) // several pushes
	pushed := make(chan error)
	go func() { pushed <- d.push() }()
	if rng.IntN(4) == 0 {
		_, _ = r.try("POST", "/v1/admin/compact", adminToken, "")
	}
	for range rng.IntN(3) { // the fault comes a little later
		_, _ = r.try("GET", "/health", "", "")
	}
	r.down(rng)
	r.allow(<-pushed)
	r.up(rng)
}

func (r *run) down(rng *rand.Rand) {
	if r.own && rng.IntN(3) > 0 {
		r.kill()
		return
	}
	r.stop()
	r.check()
}

// up starts a relay that is down, perhaps on another database.
func (r *run) up(rng *rand.Rand) {
	n := rng.IntN(10)
	switch {
	case n == 0:
		r.wipe()
		r.lost(0)
		r.start()
		r.raiseNumbers()
		return
	case n < 4 && len(r.copies) > 0:
		c := r.copies[rng.IntN(len(r.copies))]
		r.restore(c.path)
		r.lost(c.tick)
	case n < 7:
		if path, ok := r.copyAway(); ok {
			r.copies = append(r.copies, copied{path, r.world.tick + 1})
		}
	}
	r.start()
}

func (r *run) lost(tick int) {
	r.world.losses++
	for _, d := range r.fleet {
		d.lost(tick)
	}
}

func (r *run) repairs() (n int) {
	for _, d := range r.fleet {
		n += d.repairs
	}
	return n
}

// finish ends the faults and checks what the model promises.
func (r *run) finish() {
	r.world.tick++
	r.restart()
	for _, d := range r.fleet {
		d.batch, d.page = 1000, 500
	}
	r.fleet.settle()
	r.atEnd = r.fleet.verify()

	// Whoever forgets the relay heals what was excused, and nothing else changes.
	for _, d := range r.fleet {
		d.forget()
	}
	r.fleet.settle()
	r.fleet.same()
	r.compactAll()
	ids, _ := r.fleet[0].drain("")
	if want := slices.Sorted(maps.Values(r.world.winners())); !slices.Equal(slices.Sorted(slices.Values(ids)), want) {
		r.t.Errorf("S37: the relay holds %q, want %q", ids, want)
	}
	r.fleet.settle()
	r.end()
}

// end closes the owner: everybody is told once, keeps what it has, and asks no
// more.
func (r *run) end() {
	if a := r.fleet[0].closeOwner(); a.status != 200 {
		r.t.Errorf("S42: %d %s", a.status, a.body)
	}
	for _, d := range r.fleet {
		if err := d.sync(); !errors.Is(err, errTerminal) || d.halted != 410 {
			r.t.Errorf("S15: %s: %v", d.name, err)
		}
	}
	r.fleet.same()
}
