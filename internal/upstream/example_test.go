package upstream_test

import (
	"context"
	"fmt"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/upstream"
	"github.com/sluice-relay/sluice/internal/upstream/state"
)

// forgetful is a Store that keeps nothing.
type forgetful struct{}

func (forgetful) Hosts() ([]state.Host, error)          { return nil, nil }
func (forgetful) SaveHost(state.Host) (int64, error)    { return 1, nil }
func (forgetful) Repo(string) (state.Repo, bool, error) { return state.Repo{}, false, nil }
func (forgetful) Apply(state.Batch) error               { return nil }

func Example() {
	m, err := upstream.New(upstream.Config{
		Publish: func(f *firehose.Frame) (int64, error) {
			fmt.Println(firehose.KindName(f.Kind()), string(f.DID), string(f.Status))
			return 1, nil
		},
		Store: forgetful{},
	})
	if err != nil {
		panic(err)
	}
	if err := m.Start(); err != nil {
		panic(err)
	}
	fmt.Println(m.Takedown("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"))
	fmt.Println(m.Stop(context.Background()))
	// Output:
	// account did:plc:aaaaaaaaaaaaaaaaaaaaaaaa takendown
	// <nil>
	// <nil>
}

func ExampleParseUpstream() {
	for _, text := range []string{"PDS.example.com", "ws://localhost:2583", "ws://pds.example.com"} {
		fmt.Println(upstream.ParseUpstream(text))
	}
	// Output:
	// pds.example.com false <nil>
	// localhost:2583 true <nil>
	//  false upstream: not the name of a host: "ws://pds.example.com": only localhost goes without TLS
}
