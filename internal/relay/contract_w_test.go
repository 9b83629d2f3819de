package relay_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// Where each row of section 18 of the contract is tested.
//
//	W1   TestW1StrangeTargets, TestC01SmugglingIsRefused
//	W2   TestR333FrameRules
//	W3   TestR306BeforeHello, TestR306AfterHello
//	W4   TestR174BadFrom
//	W5   TestR245Payloads, TestW5OptionsOfNull
//	W6   TestR395Accepts
//	W7   TestR427StalledStream
//	W8   TestR241PublishedDownlevel, TestR242Levels
//	W9   TestR240Ceiling
//	W10  TestR245Payloads, TestR248NoPayloadSurvivesByShape
//	W11  TestR273ForgedLines
//	W12  TestR282CompleteReplay
//	W13  TestR166Exhaustion
//	W14  TestR166Exhaustion, TestR164DroppedSessions
//	W15  TestR71AllOrNothing
//	W16  TestW16CharacterAcrossReads, TestR70Precedence
//	W17  TestR194Fidelity, TestR194Golden
//	W18  TestR271Opening
//	W19  TestR397StalledTarget
//	W20  TestR70Precedence, TestW20CommandsByPost
//	W21  TestR324Replacement, TestR323Identity, TestR334GaugesFall
//	W22  TestR276LastEventID
//	W23  TestR428StalledSocket, TestR462Sockets
//	W24  TestR308HelloTimeout, TestR330RelayPing, TestR428NeverReads
//	W25  TestEnvelopeVerdicts, TestR119PublishedVerdicts
//	W26  TestR76BodyLimit, TestR332Limit, TestR332PreHelloLimit
//	W27  TestR175BufferBytes
//	W28  TestR470DescendingBatch (costs; the rest are benchmarks of the engine)
//	W29  TestR12Run (and package config for the variables)
//	W30  TestR44UpgradeElsewhere, TestR300Handshake
//	W31  TestR47HeadSize, TestR47FullFromFitsInAQuery
//	W32  TestR38WebPageGuards, TestR12Run
//	W33  TestC62NoSecretInTheLog (and the end of every test with a token)
//	W34  package auth: it cannot be seen from outside
//	W35  TestR146ClaimBound, TestR312HelloLimits, TestR381RosterBound
//	W36  TestR172From
//	W37  TestR70VersionAndType
//	W38  TestW38StubbornPeers

// TestW5OptionsOfNull: odd payloads reach subscribers under a ceiling and those
// without, and the post is a 202.
func TestW5OptionsOfNull(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	low, plain := f.stream(t, "capture=metadata", relaytest.StreamOptions{}), f.stream(t, "", relaytest.StreamOptions{})
	for i, data := range []string{`{"options":[null]}`, `{"options":null}`, `{"fields":[null,{"choices":[null]}]}`, `{"options":[[]],"fields":{}}`} {
		e := relaytest.Event{Type: "attention.requested", Session: "s", Seq: uint64(i), Capture: "full", Data: data}.JSON()
		f.post(t, e)
		if got := plain.event().Data; got != e {
			t.Errorf("got %s, want %s", got, e)
		}
		if got := low.event().Data; !strings.Contains(got, `"metadata"`) {
			t.Errorf("under a ceiling: %s", got)
		}
	}
}

// TestW20CommandsByPost: refused whole, routed to nobody, shown to nobody.
func TestW20CommandsByPost(t *testing.T) {
	t.Parallel()
	for _, f := range []*fixture{startRelay(t, nil), startTokenRelay(t, nil)} {
		target := f.target(t, "s", `{}`)
		target.subscribe(`{"type":"subscribe","id":"q"}`)
		for _, typ := range []string{"control.cancel", "control.pause", "control.resume", "control.attention.respond", "x.acme.control.zap"} {
			body := relaytest.NDJSON(relaytest.Event{Session: "s", Seq: 9}.JSON(), relaytest.Command(typ, "s").JSON())
			postCase{name: typ, body: body, status: 403, answer: duplexOnly(1)}.run(t, f)
		}
		wantTexts(t, "target and watcher", target.barrier(), nil)
	}
}

// TestC62NoSecretInTheLog sends the token wherever a client can put it. The
// fixture reads the log when the test ends.
func TestC62NoSecretInTheLog(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, map[string]string{"AEP_MAX_BODY": "1000"})
	q := "access_token=" + testToken
	for _, request := range []string{
		f.request("GET", "/healthz?"+q), f.request("GET", "/connections?"+q), f.request("GET", "/nope?"+q), f.request("GET", "/"+testToken),
		f.request("GET", "/connections?"+q+"x"), f.request("GET", "/stream?live=0&"+q), f.request("GET", "/stream?filter=x&"+q),
		f.request("GET", "/events?"+q, "Host: "+testToken), f.request("GET", "/events?"+q+" x"), f.request("GET", "/events?"+q, "X Y: "+testToken),
		f.request("GET", "/events?"+q+strings.Repeat("x", 200_000)), f.request("GET", "/events", "Authorization: Bearer "+testToken+"\x00"),
		f.request("POST", "/events?"+q, "AEP-Version: "+testToken, "Content-Length: 0"),
		f.request("POST", "/events?"+q, "AEP-Version: 0.1", "Content-Type: "+testToken, "Content-Length: 0"),
		f.request("POST", "/events?"+q, "AEP-Version: 0.1", "Content-Type: "+jsonType, fmt.Sprintf("Content-Length: %d", len(testToken))) + testToken,
		f.request("POST", "/events?"+q, "Transfer-Encoding: "+testToken), "GET /events?" + q + " HTTP/9\r\n\r\n", testToken + " / HTTP/1.1\r\n\r\n",
		f.request("GET", "/socket?"+q), f.request("GET", "/socket?"+q, "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: "+testToken),
	} {
		r, err := relaytest.Do(f.addr, "GET", request, patience)
		if err != nil {
			t.Errorf("%.60q: %v", request, err)
			continue
		}
		if strings.Contains(r.Head+string(r.Body), "SECRET123") {
			t.Errorf("R15: %.60q: the answer shows the token: %s%s", request, r.Head, r.Body)
		}
	}
	w, err := relaytest.DialWS(f.addr, "/socket?"+q, relaytest.WSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_ = w.SendText(testToken)
	_ = w.SendText(`{"type":"` + testToken + `"}`)
	if m, err := w.Next(patience); err != nil || strings.Contains(string(m.Data), "SECRET123") {
		t.Errorf("bad-json answer %q, %v", m.Data, err)
	}
	_, _ = w.Drain(patience)
	_ = w.Close()
}
