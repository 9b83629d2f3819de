package scenario

import (
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/bench/load"
	"github.com/sluice-relay/sluice/bench/report"
)

// Sizes of events, in bytes of text.
const (
	small = 200
	usual = 600
	large = 16 << 10
)

// noUring says why no relay writes by io_uring.
const noUring = "the writer was left out: it won 1.2x in CPU per delivery, and 1.3x was asked for (ARCHITECTURE.md, Rejected)"

// burst is how many events a saturating load publishes at once.
const burst = 32

const (
	sluice        = report.TargetSluice
	floor         = report.TargetFloor
	floorCat      = report.TargetFloorCat
	floorUring    = report.TargetFloorUring
	floorCatUring = report.TargetFloorCatUring
)

var (
	rivals = []string{report.TargetGobwas, report.TargetGWS, report.TargetCentrifuge}
	joined = append(rivals[:3:3], report.TargetCentrifugeJoined)
)

// Suite returns all scenarios, in the order in which they run.
func Suite() []Scenario {
	var s []Scenario
	s = append(s, fanOut(load.WebSocket, 1000, 200, 24, 3)...)
	s = append(s, fanOut(load.WebSocket, 5000, 30, 6, 2)...)
	s = append(s, fanOut(load.WebSocket, 10_000, 20, 4, 3)...)
	s = append(s, fanOut(load.WebSocket, 19_000, 10, 3, 3)...)
	s = append(s, fanOut(load.SSE, 1000, 200, 0, 1)...)
	s = append(s, fanOut(load.SSE, 10_000, 20, 4, 1)...)
	s = append(s, sizes()...)
	s = append(s, paced()...)
	s = append(s, filtered()...)
	s = append(s, slow()...)
	s = append(s, herd())
	s = append(s, ingest())
	return append(s, idle()...)
}

// fanOut is one stream to n consumers, one event in flight and in batches. Each
// has fresh connections: what went over one before changes what the kernel makes
// of a write.
func fanOut(kind load.Kind, n, events, bursts, rounds int) []Scenario {
	name := fmt.Sprintf("fanout-%s-%dk", protocol(kind), n/1000)
	one := Scenario{
		Name: name + "-one", Kind: kind, Consumers: n, Rounds: rounds, Quick: n == 1000,
		Targets: append([]string{sluice, floor, floorUring}, rivals...), Once: rivals,
		Loads: []Load{{
			Name: name + "-one", Title: fmt.Sprintf("%d %s consumers, one event in flight", n, title(kind)),
			SizeBytes: usual, Events: events, Warmup: 3, Window: 1,
		}},
	}
	if kind == load.WebSocket {
		one.Absent = map[string]string{report.TargetSluiceUring: noUring}
	}
	sat := Scenario{
		Name: name + "-sat", Kind: kind, Consumers: n, Rounds: rounds, Quick: n == 1000,
		Targets: append([]string{sluice, floorCat, floorCatUring}, joined...), Once: joined,
		Loads: []Load{{
			Name: name + "-sat", Title: fmt.Sprintf("%d %s consumers, saturating in batches of %d", n, title(kind), burst),
			SizeBytes: usual, Events: bursts * burst, Warmup: burst, Window: burst, Batch: burst,
		}},
	}
	switch {
	case kind == load.SSE && n == 1000:
		one.Targets, one.Once = one.Targets[:1], nil
		return []Scenario{one}
	case kind == load.SSE:
		one.Targets, one.Once = one.Targets[:1], nil
		sat.Targets, sat.Once = sat.Targets[:1], nil
	case n == 10_000: // goals depend on it
		one.Rounds, sat.Rounds, sat.Once, sat.Alternate = 7, 7, nil, joined
	case n == 19_000:
		one.Targets, one.Once = one.Targets[:3], nil
		sat.Targets, sat.Once = sat.Targets[:2], nil
	}
	return []Scenario{one, sat}
}

// sizes are the other sizes of events.
func sizes() []Scenario {
	targets := []string{sluice, floorCat}
	return []Scenario{
		{
			Name: "size-small-10k", Consumers: 10_000, Rounds: 1, Targets: targets,
			Loads: []Load{{
				Name: report.SizeSmall10kSat, Title: "10000 WebSocket consumers, events of 200 bytes, saturating",
				SizeBytes: small, Events: 8 * burst, Warmup: burst, Window: burst, Batch: burst,
			}},
		},
		{
			Name: "size-large-1k", Consumers: 1000, Rounds: 1, Targets: targets,
			Loads: []Load{{
				Name: report.SizeLarge1kSat, Title: "1000 WebSocket consumers, events of 16 KiB, saturating",
				SizeBytes: large, Events: 4 * burst, Warmup: burst, Window: burst, Batch: burst,
			}},
		},
	}
}

// paced are loads by a schedule.
func paced() []Scenario {
	return []Scenario{
		{
			Name: report.Paced1k, Consumers: 1000, Rounds: 3, Targets: []string{sluice, floorCat}, Quick: true,
			Loads: []Load{{
				Name: report.Paced1k, Title: "1000 WebSocket consumers, 300 events/s by schedule",
				SizeBytes: usual, Events: 1200, Warmup: 150, Rate: 300,
			}},
		},
		{
			Name: report.Light1k, Consumers: 1000, Rounds: 1, Targets: append([]string{sluice, floor}, rivals...),
			Loads: []Load{{
				Name: report.Light1k, Title: "1000 WebSocket consumers, 10 events/s by schedule",
				SizeBytes: usual, Events: 40, Warmup: 5, Rate: 10,
			}},
		},
	}
}

// filtered are loads where not everyone gets everything.
func filtered() []Scenario {
	const own = 10
	each := func(name string, n int) Scenario {
		return Scenario{
			Name: name, Group: "filters", Consumers: n, Filters: n, Rounds: 3, Targets: []string{sluice}, Quick: n == 10,
			Loads: []Load{{
				Name: name, Title: fmt.Sprintf("%d consumers, each with its own session filter, batches of %d", n, own),
				// The first event of a session costs its buffer. With more in
				// flight than consumers, one write would carry several events.
				SizeBytes: usual, Events: 20_000, Warmup: 10_000, Window: own, Batch: own,
			}},
		}
	}
	return []Scenario{
		each(report.Filters10k, 10_000), each(report.Filters10, own),
		{
			Name: report.Filters100x100, Consumers: 10_000, Filters: 100, Rounds: 1, Targets: []string{sluice},
			Loads: []Load{{
				Name: report.Filters100x100, Title: "100 session filters of 100 consumers each, 32 events in flight",
				SizeBytes: usual, Events: 8000, Warmup: 500, Window: burst,
			}},
		},
		{
			Name: report.CeilingsMixed, Consumers: 10_000, Split: ByCeiling, Rounds: 1, Targets: []string{sluice},
			Loads: []Load{{
				Name: report.CeilingsMixed, Title: "10000 consumers, a quarter each with one of the four capture ceilings, saturating",
				SizeBytes: usual, Events: 8 * burst, Warmup: burst, Window: burst, Batch: burst,
			}},
		},
	}
}

// slow are loads with consumers that do not read as fast as they are sent to.
func slow() []Scenario {
	stalled := func(name, beside string, n int) Scenario {
		return Scenario{
			Name: name, Group: "stalled", Consumers: 200, Stalled: n, Rounds: 5, Targets: []string{sluice},
			Loads: []Load{
				// More than the kernel's buffers hold, so that the stalled ones
				// owe something from then on, and less than what they are cut for.
				{SizeBytes: usual, Events: 3000, Window: burst},
				{
					Name: name, Title: "200 consumers" + beside + ", 200 events/s by schedule",
					SizeBytes: usual, Events: 600, Rate: 200,
				},
			},
		}
	}
	behind := func(name, title string, recvBytes int, env ...string) Scenario {
		return Scenario{
			Name: name, Group: "behind", Consumers: 5000, RecvBytes: recvBytes, Env: env, Rounds: 3, Targets: []string{sluice},
			Loads: []Load{{
				Name: name, Title: "5000 consumers, " + title + ", events of 600 bytes in batches of 160",
				SizeBytes: usual, Events: 8 * 160, Warmup: 320, Window: 160, Batch: 160,
			}},
		}
	}
	return []Scenario{
		stalled(report.StalledNone, "", 0),
		stalled(report.Stalled20, " and 20 that never read", 20),
		// The kernel holds less than a batch of 96 KB for a consumer, or all of it.
		behind(report.Behind5k, "buffers of 32 KiB", 32<<10, "SLUICE_SEND_BUFFER=32768"),
		behind(report.Behind5kRoom, "buffers with room", 0),
	}
}

// herd is 5,000 reconnects at once.
func herd() Scenario {
	return Scenario{
		Name: report.Herd5k, Kind: load.SSE, Consumers: 5000, Herd: true, Rounds: 3, Targets: []string{sluice},
		Loads: []Load{{
			Name: report.Herd5k, Title: "5000 SSE consumers reconnect at once, each 80 events behind",
			Kind: Herd, SizeBytes: usual, Events: 100,
		}},
	}
}

// ingest are loads that nobody follows.
func ingest() Scenario {
	return Scenario{
		Name: "ingest", Rounds: 3, Targets: append([]string{sluice}, rivals...), Quick: true,
		Loads: []Load{
			{
				Name: report.IngestNDJSON, Title: "NDJSON requests of 100 events, 4 connections", Kind: Ingest,
				// Buffers are full when it counts: each event takes the place of one.
				SizeBytes: usual, Events: 200_000, Warmup: 150_000, Lines: 100, Conns: 4,
			},
			{
				Name: report.IngestSingle, Title: "requests of one event, 4 connections", Kind: Ingest,
				SizeBytes: usual, Events: 20_000, Warmup: 2000, Lines: 1, Conns: 4,
			},
		},
	}
}

// idle are connections that nothing happens on.
func idle() []Scenario {
	one := func(name, title string, kind load.Kind, targets ...string) Scenario {
		return Scenario{
			Name: name, Kind: kind, Consumers: 10_000, Rounds: 2, Targets: targets, Once: targets[1:],
			Settle: 4 * time.Second,
			Loads:  []Load{{Name: name, Title: title, Kind: Idle}},
		}
	}
	return []Scenario{
		one(report.IdleWS10k, "10000 idle WebSocket consumers", load.WebSocket, append([]string{sluice}, rivals...)...),
		one(report.IdleSSE10k, "10000 idle SSE consumers", load.SSE, sluice),
	}
}

func protocol(kind load.Kind) string {
	if kind == load.SSE {
		return "sse"
	}
	return "ws"
}

func title(kind load.Kind) string {
	if kind == load.SSE {
		return "SSE"
	}
	return "WebSocket"
}
