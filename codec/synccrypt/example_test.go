package synccrypt_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
)

const phrase = "legal winner thank year wave sausage worth useful legal winner thank yellow"

func ExampleParseCredential() {
	id, normal, err := synccrypt.ParseCredential("  LEGAL winner thank year wave sausage\nworth useful legal winner thank yellow")
	fmt.Println(id, normal == phrase, err)
	_, _, err = synccrypt.ParseCredential(strings.Replace(phrase, "wave", "waves", 1))
	fmt.Println(err)
	// Output:
	// hnswwRUeBkLXbLGKiV27Kw true <nil>
	// synccrypt: credential refused: word 5 is not in the English word list
}

func ExampleIdentity_Seal() {
	id, _, err := synccrypt.ParseCredential(phrase)
	if err != nil {
		fmt.Println(err)
		return
	}
	clock, err := synccrypt.Tick(synccrypt.HLC{}, time.UnixMilli(1720519200000), "laptop")
	if err != nil {
		fmt.Println(err)
		return
	}
	p := synccrypt.Payload{
		SchemaVersion: synccrypt.SchemaVersion, Table: "todo", ID: "1", HLC: clock.String(),
		Row: []byte(`{"title": "buy milk", "done": false}`),
	}
	envelope, err := id.Seal(nil, &p, "laptop", time.Now(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	got, header, _, err := id.OpenPayload(envelope)
	fmt.Printf("%s %s %s %v\n", header.EventID, got.ID, got.Row, err)

	changed := strings.Replace(string(envelope), "laptop", "tablet", 1)
	_, _, _, err = id.OpenPayload([]byte(changed))
	fmt.Println(errors.Is(err, synccrypt.ErrTag))
	// Output:
	// 1720519200000-0000-laptop 1 {"done":false,"title":"buy milk"} <nil>
	// true
}

func ExampleCanonical() {
	form, err := synccrypt.Canonical(nil, []byte(`{ "b": 1.0, "a": "\u00e9\/" }`))
	fmt.Printf("%s %v\n", form, err)
	// Output:
	// {"a":"é/","b":1.0} <nil>
}

func ExampleIdentity_SealChunk() {
	id, _, err := synccrypt.ParseCredential(phrase)
	if err != nil {
		fmt.Println(err)
		return
	}
	sealed, err := id.SealChunk(nil, []byte("part of a photograph"), "photo-1", 0, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(synccrypt.ChunkHash(sealed)), len(sealed))
	plain, err := id.OpenChunk(nil, sealed, "photo-1", 0)
	fmt.Printf("%s %v\n", plain, err)
	_, err = id.OpenChunk(nil, sealed, "photo-1", 1)
	fmt.Println(err)
	// Output:
	// 43 48
	// part of a photograph <nil>
	// synccrypt: chunk 1: authentication failed
}
