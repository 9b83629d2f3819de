package faults_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/faults"
)

// serveOnce answers one connection with text, an octet at a time, and closes.
func serveOnce(t *testing.T, text string) string {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, "listen", err)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer func() { _ = nc.Close() }()
		br := bufio.NewReader(nc)
		for line := ""; line != "\r\n"; {
			if line, err = br.ReadString('\n'); err != nil {
				return
			}
		}
		for i := range len(text) {
			if _, err := io.WriteString(nc, text[i:i+1]); err != nil {
				return
			}
		}
	}()
	return ln.Addr().String()
}

// chunk is a chunk of a stream, frame a whole text message, both as the relay
// sends them.
func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

func frame(s string) string { return "\x81" + string(rune(len(s))) + s }

var (
	streamHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(": open b00710d\n\n")
	socketHead = "HTTP/1.1 101 Switching Protocols\r\n\r\n" +
		frame(`{"type":"hello","capabilities":{"experimental":{"boot":"b00710d"}}}`) +
		frame(`{"type":"subscribed","id":1}`)
)

// TestConsumer: a consumer reads what the relay may send and nothing else.
func TestConsumer(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		socket       bool
		want         string // items, joined
		malformed    bool
	}{
		{"stream", streamHead + chunk("event: a.b\ndata: {\"aep\":\"0.1\"}\nid: s:0:7\n\n") + chunk(": shed 12\n\n") + chunk(""), false, `{"aep":"0.1"} s:0:7, shed 12, ended`, false},
		{"marker", streamHead + chunk(": replay-exhausted a 0:123\n\n"), false, "replay-exhausted 123, EOF", false},
		{"two blocks in a chunk", streamHead + chunk(": a b\n\n: c\n\n"), false, "", true},
		{"half a block", streamHead + chunk(": a"), false, "", true},
		{"chunk size", streamHead + "x\r\n: a\n\n\r\n", false, "", true},
		{"chunk end", streamHead + "5\r\n: a\n\nxx", false, "", true},
		{"torn", streamHead + "5\r\n: a", false, "unexpected EOF", false},
		{"socket", socketHead + frame(`{"aep":"0.1"}`) + "\x89\x01p" + "\x88\x06\x03\xf5slow", true, `{"aep":"0.1"} , ended`, false},
		{"masked", socketHead + "\x81\x81aaaab", true, "", true},
		{"fragment", socketHead + "\x01\x01a", true, "", true},
		{"binary", socketHead + "\x82\x01a", true, "", true},
		{"not JSON", socketHead + frame("{"), true, "", true},
		{"torn frame", socketHead + "\x81\x7e\x01", true, "unexpected EOF", false},
	} {
		got, err := consume(t, serveOnce(t, c.answer), c.socket)
		if c.malformed {
			if err == nil || !strings.Contains(err.Error(), "malformed") {
				t.Errorf("%s: got %q, %v, want it refused", c.name, got, err)
			}
			continue
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// consume reads to the end and joins what came.
func consume(t *testing.T, addr string, socket bool) (string, error) {
	t.Helper()
	c, err := faults.OpenConsumer(addr, faults.Subscription{Socket: socket})
	must(t, "open", err)
	defer c.Close()
	if c.Boot != "b00710d" {
		t.Errorf("R55: boot id %q", c.Boot)
	}
	var all []string
	for {
		it, err := c.Next(patience)
		switch {
		case errors.Is(err, faults.ErrEnded):
			return strings.Join(append(all, "ended"), ", "), nil
		case err != nil:
			return strings.Join(append(all, err.Error()), ", "), err
		case it.Event != nil:
			all = append(all, string(it.Event)+" "+it.ID)
		default:
			all = append(all, fmt.Sprint(it.Note.Kind, " ", it.Note.Count+it.Note.Earliest))
		}
	}
}
