package firehoseclients

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"testing"

	"github.com/sluice-relay/sluice/codec/firehose"
)

// judged returns the next line of frames.mjs, a frame that both decoders read
// and that is canonical: read and written again it is the same (F9, F10).
func judged(c *client) line {
	c.t.Helper()
	l := c.expect("frame")
	if l.Fault != "" || l.XrpcFault != "" || l.Again != l.Hex {
		c.t.Fatalf("F10: not canonical: %s\nwritten again %s, %s, %s", l.Hex, l.Again, l.Fault, l.XrpcFault)
	}
	same(c.t, "header of xrpc-server", l.Xrpc.Header, l.Header)
	same(c.t, "body of xrpc-server", l.Xrpc.Body, l.Body)
	return l
}

// watch starts frames.mjs on a stream and checks how its WebSocket is agreed:
// no subprotocol and no extension, though it offers one (F1), and no header
// that would have other relays ban a source (F8).
func watch(t *testing.T, url, query string) *client {
	t.Helper()
	c := run(t, "frames.mjs", map[string]string{"url": url + subscribePath + query})
	l := c.expect("upgrade")
	if l.Protocol != "" || l.Extensions != "" || l.Server != "sluice" {
		t.Errorf("F1, F8: protocol %q, extensions %q, server %q", l.Protocol, l.Extensions, l.Server)
	}
	return c
}

// TestFramesAreCanonical is F9 to F15, F52, F61: two independent decoders read
// every frame that the relay sends, bytes and fields are those of the vectors
// but for the number, and dag-cbor writes the same bytes.
func TestFramesAreCanonical(t *testing.T) {
	v, s := readVectors(t), startSource(t, 1)
	c := watch(t, s.url(), "?cursor=0") // nothing is held: simply live (F20)
	for _, want := range s.publishAll(v.messages(t)) {
		l := judged(c)
		same(t, want.Name, l.Header, map[string]any{"t": want.Header.T, "op": 1.0})
		same(t, want.Name, l.Body, want.numbered(want.seq))
		if renumbered := renumber(t, unhex(t, want.Hex), want.seq); l.Hex != hex.EncodeToString(renumbered) {
			t.Errorf("F61: %s: got %s", want.Name, l.Hex)
		}
	}
	for _, unsorted := range v.NonCanonicalAccepted {
		if unsorted.Name == "unsorted-body" { // of a kind that is published (case 29)
			seq := s.publish(unhex(t, unsorted.Hex))
			if l := judged(c); l.Hex != hex.EncodeToString(renumber(t, unhex(t, unsorted.CanonicalHex), seq)) {
				t.Errorf("F59, case 29: got %s", l.Hex)
			}
			return
		}
	}
	t.Error("no unsorted body among the vectors")
}

// renumber gives a canonical frame another number.
func renumber(t *testing.T, message []byte, seq int64) []byte {
	t.Helper()
	var scanner firehose.Scanner
	var frame firehose.Frame
	err := scanner.Scan(message, &frame)
	if err == nil {
		message, err = frame.Append(nil, seq)
	}
	if err != nil {
		t.Fatal(err)
	}
	return message
}

// TestJudgeFindsFaults shows that frames.mjs can say no: a frame with unsorted
// keys is read and is not what dag-cbor writes, and half a frame is not read.
func TestJudgeFindsFaults(t *testing.T) {
	v := readVectors(t)
	whole := v.named(t, "identity-with-handle").Hex
	given := []string{whole, whole[:len(whole)-2]}
	for _, unsorted := range v.NonCanonicalAccepted {
		given = append(given, unsorted.Hex)
	}
	c := run(t, "frames.mjs", map[string][]string{"hex": given})
	judged(c)
	if l := c.expect("frame"); l.Fault == "" || l.XrpcFault == "" || l.Again != "" {
		t.Errorf("half a frame: %+v", l)
	}
	for _, unsorted := range v.NonCanonicalAccepted {
		if l := c.expect("frame"); l.Again != unsorted.CanonicalHex || l.Again == l.Hex {
			t.Errorf("%s: written again as %s", unsorted.Name, l.Again)
		}
	}
	c.expect("ended")
}

// TestNoticesAreCanonical is F3, F22, F23, F49 and cases 3, 5 and 6: the frames
// without a number are canonical too, and an error frame is the last.
func TestNoticesAreCanonical(t *testing.T) {
	const floor = 1000
	v, s := readVectors(t), startSource(t, floor)
	message := v.named(t, "account-deleted")
	first := s.publish(unhex(t, message.Hex))

	for _, cursor := range []string{"0", "5", "998"} { // E is 999
		c := watch(t, s.url(), "?cursor="+cursor)
		l := judged(c)
		same(t, "F13: header of #info", l.Header, map[string]any{"t": "#info", "op": 1.0})
		if l.Body["name"] != "OutdatedCursor" || l.Body["seq"] != nil {
			t.Errorf("F22: cursor %s: %v", cursor, l.Body)
		}
		same(t, "frame after #info", judged(c).Body, message.numbered(first))
	}
	same(t, "case 6: cursor E", judged(watch(t, s.url(), "?cursor=999")).Body, message.numbered(first))

	next := strconv.FormatInt(s.next, 10)
	for _, cursor := range []string{next, "99999999999999999999999"} {
		c := watch(t, s.url(), "?cursor="+cursor)
		l := judged(c)
		same(t, "F13: header of an error", l.Header, map[string]any{"op": -1.0})
		if l.Body["error"] != "FutureCursor" {
			t.Errorf("F23: cursor %s: %v", cursor, l.Body)
		}
		if end := c.expect("closed"); end.Code != 1008.0 || end.Reason != "FutureCursor" {
			t.Errorf("F49: closed with %v %q", end.Code, end.Reason)
		}
	}
	for _, cursor := range []string{"-1", "1.5", "abc", "%201"} {
		c := run(t, "frames.mjs", map[string]string{"url": s.url() + subscribePath + "?cursor=" + cursor})
		if l := c.expect("refused"); l.Code != 400.0 {
			t.Errorf("F3, case 2: cursor %s: %v", cursor, l.Code)
		}
	}
}

// TestOthersAreRefused is F52: what is not a frame of a known numbered kind is
// refused, and takes no number.
func TestOthersAreRefused(t *testing.T) {
	v, s := readVectors(t), startSource(t, 1)
	for _, name := range []string{"unknown-type", "info-outdated", "error-future-cursor"} {
		frame := v.named(t, name)
		status, text := s.post(unhex(t, frame.Hex))
		var answer struct{ Error string }
		if err := json.Unmarshal(text, &answer); err != nil || status != http.StatusBadRequest || answer.Error != "InvalidRequest" {
			t.Errorf("F52: %s: %d %s", name, status, bytes.TrimSpace(text))
		}
	}
	s.publish(unhex(t, v.named(t, "sync").Hex)) // and it is number 1
}
