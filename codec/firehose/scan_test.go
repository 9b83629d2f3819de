package firehose

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/dagcbor"
)

// TestScanFields: what a frame lends, for each kind.
func TestScanFields(t *testing.T) {
	var s Scanner
	var f Frame
	scan := func(kind Kind, m map[string]string) string {
		t.Helper()
		if err := s.Scan(message(t, kind, m), &f); err != nil {
			t.Fatalf("%s: %v", KindName(kind), err)
		}
		if f.Kind() != kind || f.Check() != nil {
			t.Errorf("%s: kind %d, check %v", KindName(kind), f.Kind(), f.Check())
		}
		return fmt.Sprintf("%s %d %s %s %s %s %d %s %v %s %s %s", f.Type, f.Seq, f.DID, f.Time, f.Rev, f.Since, f.OpsCount, f.Handle, f.Active, f.Status, f.Name, f.Message)
	}
	is := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	is(scan(KindCommit, commitFields(t)), "#commit 5 "+did+" "+when+" "+rev+" "+prev+" 1  false   ")
	if root, archive := repository(t, did, rev); !bytes.Equal(f.Commit, root) || !bytes.Equal(f.Blocks, archive) || !bytes.Equal(f.PrevData, dataCID) {
		t.Errorf("commit %v, %d bytes, prevData %v", f.Commit, len(f.Blocks), f.PrevData)
	}
	// What one frame had is gone in the next.
	is(scan(KindSync, about("rev", text(rev), "blocks", "40", "seq", "1b001fffffffffffff")), "#sync 9007199254740991 "+did+" "+when+" "+rev+"  0  false   ")
	if f.Commit != nil || f.PrevData != nil || f.Blocks == nil || len(f.Blocks) != 0 {
		t.Errorf("commit %v, blocks %v", f.Commit, f.Blocks)
	}
	is(scan(KindIdentity, about("handle", text("note.example"))), "#identity 5 "+did+" "+when+"   0 note.example false   ")
	is(scan(KindAccount, about("active", "f5")), "#account 5 "+did+" "+when+"   0  true   ")
	is(scan(KindAccount, about("active", "f4", "status", text("new"))), "#account 5 "+did+" "+when+"   0  false new  ")
	is(scan(KindInfo, map[string]string{"name": text("n"), "message": text("m")}), "#info 0     0  false  n m")
	is(scan(KindError, map[string]string{"error": text("e"), "message": text("m"), "name": "00"}), " 0     0  false  e m")
	is(scan(KindCommit, commitFields(t, "since", "f6", "ops", "80", "prevData", "")), "#commit 5 "+did+" "+when+" "+rev+"  0  false   ")
}

// TestScanReactions is F58 and F59, beyond the vectors.
func TestScanReactions(t *testing.T) {
	var s Scanner
	f := func(name string, in []byte, reaction Reaction, want error, seq int64) {
		t.Helper()
		var frame Frame
		err := s.Scan(in, &frame)
		if ReactionTo(err) != reaction || !errors.Is(err, want) || frame.Seq != seq {
			t.Errorf("%s: got %v with seq %d, want: %v, %v, seq %d", name, err, frame.Seq, reaction, want, seq)
		}
		if word := Reason(err); err != nil && (word == "" || word == "other") {
			t.Errorf("%s: reason %q", name, word)
		}
	}
	identity := body(t, about())
	headed := func(header string) []byte { return append(unhex(t, header), identity...) }
	op, tKey := text("op"), text("t")

	f("F58 op is text", headed("a1"+op+text("1")), DropConnection, ErrOpType, 0)
	f("F58 op is a float", headed("a1"+op+"fb3ff0000000000000"), DropConnection, ErrOpType, 0)
	f("F58 op is null", headed("a1"+op+"f6"), DropConnection, ErrOpType, 0)
	f("F58 no header fields", headed("a0"), DropConnection, ErrNoOp, 0)
	f("F58 op is 2", headed("a2"+tKey+text("#identity")+op+"02"), SkipFrame, ErrUnknownOp, 5)
	f("F58 op is -2", headed("a1"+op+"21"), SkipFrame, ErrUnknownOp, 5)
	f("F58 op is 2^64-1", headed("a1"+op+"1bffffffffffffffff"), SkipFrame, ErrUnknownOp, 5)
	f("F58 unknown t", headed("a2"+tKey+text("#tombstone")+op+"01"), SkipFrame, ErrUnknownType, 5)
	f("F58 t without #", headed("a2"+tKey+text("identity")+op+"01"), SkipFrame, ErrUnknownType, 5)
	f("F59 t is no text", headed("a2"+tKey+"01"+op+"01"), SkipFrame, ErrNoType, 5)
	f("F58 unknown op over bad CBOR", append(unhex(t, "a1"+op+"02"), 0xf7), DropConnection, dagcbor.ErrUndefined, 0)
	f("F58 unknown t before a trailing byte", append(headed("a2"+tKey+text("#x")+op+"01"), 0), DropConnection, dagcbor.ErrTrailing, 0)
	f("F59 other fields of a header", headed("a3"+op+"01"+text("zz")+"80"+tKey+text("#identity")), Accept, nil, 5)
	f("F58 duplicate key in a header", headed("a3"+op+"01"+op+"01"+tKey+text("#identity")), DropConnection, dagcbor.ErrDuplicateKey, 0)
	f("F59 unsorted error header with t", append(unhex(t, "a2"+op+"20"+tKey+text("#x")), body(t, map[string]string{"error": text("x")})...), Accept, nil, 0)
	f("F58 wrong field before bad CBOR", append(message(t, KindIdentity, about("time", "00")), 0xff), DropConnection, dagcbor.ErrTrailing, 0)

	for name, m := range map[string]map[string]string{
		"no number": about("seq", ""), "no DID": about("did", ""),
	} {
		f("F59 "+name, message(t, KindIdentity, m), SkipFrame, ErrMissing, map[bool]int64{true: 5}[m["seq"] != ""])
	}
	for name, seq := range map[string]string{"a float": "fb4014000000000000", "text": "6135", "null": "f6", "a bool": "f5"} {
		f("F59 seq is "+name, message(t, KindIdentity, about("seq", seq)), SkipFrame, ErrType, 0)
	}
	for name, seq := range map[string]string{"0": "00", "-1": "20", "2^53": "1b0020000000000000", "2^64-1": "1bffffffffffffffff"} {
		f("F15 seq is "+name, message(t, KindIdentity, about("seq", seq)), SkipFrame, ErrSeq, 0)
	}
	f("no rev", message(t, KindSync, about()), SkipFrame, ErrMissing, 5)
	f("no repo", message(t, KindCommit, commitFields(t, "repo", "")), SkipFrame, ErrMissing, 5)
	f("no rev of a commit", message(t, KindCommit, commitFields(t, "rev", "")), SkipFrame, ErrMissing, 5)
	f("no active", message(t, KindAccount, about()), SkipFrame, ErrMissing, 5)
	f("no name", message(t, KindInfo, map[string]string{}), SkipFrame, ErrMissing, 0)
	f("no error", message(t, KindError, map[string]string{"name": text("x")}), SkipFrame, ErrMissing, 0)
	f("did is none", message(t, KindIdentity, about("did", text("plc:a"))), SkipFrame, ErrDID, 5)
	f("rev is no TID", message(t, KindCommit, commitFields(t, "rev", text("1"))), SkipFrame, ErrTID, 5)
	f("what the relay does not work with may be missing", message(t, KindCommit, map[string]string{"repo": text(did), "rev": text(rev), "seq": "05"}), Accept, nil, 5)
	f("and have any value", message(t, KindIdentity, about("time", text("yesterday"), "handle", text("?"))), Accept, nil, 5)

	for kind, m := range map[Kind]map[string]string{ // every header in schema order
		KindCommit: commitFields(t), KindSync: about("rev", text(rev)), KindIdentity: about(), KindAccount: about("active", "f5"), KindInfo: {"name": "60"},
	} {
		in := append(unhex(t, "a2"+op+"01"+tKey+text("#"+KindName(kind))), body(t, m)...)
		f("F59 #"+KindName(kind), in, Accept, nil, map[bool]int64{true: 5}[kind <= KindAccount])
		var frame Frame
		if s.Scan(in, &frame) != nil || frame.Kind() != kind || string(frame.Type) != "#"+KindName(kind) {
			t.Errorf("#%s: read as %s %s", KindName(kind), KindName(frame.Kind()), frame.Type)
		}
	}

	many := about()
	for i := range dagcbor.MaxFields {
		many[fmt.Sprintf("x%04d", i)] = "00"
	}
	f("too many fields", message(t, KindIdentity, many), SkipFrame, dagcbor.ErrTooManyFields, 0)
	f("too many fields and a byte", append(message(t, KindIdentity, many), 0), DropConnection, dagcbor.ErrTrailing, 0)
}

// TestScanFieldTypes is F59: each known field of another type, and null where
// F14 does not allow it.
func TestScanFieldTypes(t *testing.T) {
	var s Scanner
	f := func(kind Kind, m map[string]string, key, value, field string) {
		t.Helper()
		m[key] = value
		var frame Frame
		err := s.Scan(message(t, kind, m), &frame)
		var at *FieldError
		if field == "" && err != nil || field != "" && (!errors.As(err, &at) || at.Field != field || !errors.Is(err, ErrType) || ReactionTo(err) != SkipFrame) {
			t.Errorf("%s: %s is %s: got %v", KindName(kind), key, value, err)
		}
	}
	const number, word, null, array = "00", "6161", "f6", "80"
	links := link(dataCID)
	others := func(allowed ...string) (values []string) {
		for _, v := range []string{number, word, null, array, "a0", "40", "f4", links} {
			if !strings.Contains(strings.Join(allowed, " "), v) {
				values = append(values, v)
			}
		}
		return values
	}
	for key, allowed := range map[string][]string{
		"ops": {array}, "rev": {word}, "seq": {number}, "repo": {word}, "time": {word}, "blobs": {array}, "since": {word, null},
		"blocks": {"40"}, "commit": {links}, "rebase": {"f4"}, "tooBig": {"f4"}, "prevData": {links},
	} {
		for _, value := range others(allowed...) {
			f(KindCommit, commitFields(t), key, value, key)
		}
	}
	for _, value := range others() {
		f(KindCommit, commitFields(t), "unknown", value, "")
		f(KindCommit, commitFields(t), "blobs", "82"+links+value, map[bool]string{false: "blobs"}[value == links])
		f(KindCommit, commitFields(t), "ops", "81"+value, map[bool]string{false: "ops"}[value == "a0"])
		inOp := func(key string) string { return "82a0a1" + text(key) + value }
		f(KindCommit, commitFields(t), "ops", inOp("cid"), map[bool]string{false: "ops.cid"}[value == links || value == null])
		f(KindCommit, commitFields(t), "ops", inOp("prev"), map[bool]string{false: "ops.prev"}[value == links])
		f(KindCommit, commitFields(t), "ops", inOp("path"), map[bool]string{false: "ops.path"}[value == word])
		f(KindCommit, commitFields(t), "ops", inOp("action"), map[bool]string{false: "ops.action"}[value == word])
		f(KindCommit, commitFields(t), "ops", inOp("unknown"), "")
	}
	for _, value := range others(word) {
		f(KindSync, about("rev", text(rev)), "rev", value, "rev")
		f(KindSync, about("rev", text(rev)), "did", value, "did")
		f(KindSync, about("rev", text(rev)), "time", value, "time")
		f(KindIdentity, about(), "handle", value, "handle")
		f(KindIdentity, about(), "status", value, "")
		f(KindAccount, about("active", "f5"), "status", value, "status")
		f(KindAccount, about("active", "f5"), "handle", value, "")
		f(KindInfo, map[string]string{"name": word}, "name", value, "name")
		f(KindInfo, map[string]string{"name": word}, "message", value, "message")
		f(KindError, map[string]string{"error": word}, "error", value, "error")
		f(KindError, map[string]string{"error": word}, "name", value, "")
	}
	for _, value := range others("40") {
		f(KindSync, about("rev", text(rev)), "blocks", value, "blocks")
	}
	for _, value := range others("f4") {
		f(KindAccount, about(), "active", value, "active")
	}
}

// TestScanSize is F17 and hard case 40.
func TestScanSize(t *testing.T) {
	var s Scanner
	f := func(size int, reaction Reaction) {
		t.Helper()
		in := message(t, KindCommit, commitFields(t))
		in = message(t, KindCommit, commitFields(t, "xxxxxxxxx", octets(make([]byte, size-len(in)-15))))
		if len(in) != size {
			t.Fatalf("made %d bytes, not %d", len(in), size)
		}
		var frame Frame
		err := s.Scan(in, &frame)
		if ReactionTo(err) != reaction || reaction != Accept && !errors.Is(err, ErrFrameTooBig) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	f(MaxFrameBytes, Accept)
	f(MaxFrameBytes+1, DropConnection)
	s.MaxFrameBytes = 100_000
	f(100_000, Accept)
	f(100_001, DropConnection)
}

// TestScanCut is F58: a message that ends early is bad framing wherever.
func TestScanCut(t *testing.T) {
	var s Scanner
	var f Frame
	in := message(t, KindCommit, commitFields(t))
	for i := range in {
		if err := s.Scan(in[:i], &f); ReactionTo(err) != DropConnection || !errors.Is(err, dagcbor.ErrTruncated) {
			t.Fatalf("cut at %d of %d: %v", i, len(in), err)
		}
	}
}

func TestReactionAndReason(t *testing.T) {
	if ReactionTo(nil) != Accept || ReactionTo(bad("x", ErrType)) != SkipFrame || ReactionTo(fmt.Errorf("x: %w", drop(ErrNoOp))) != DropConnection {
		t.Error("wrong reaction")
	}
	if Reason(nil) != "" || Reason(errors.New("x")) != "other" {
		t.Error("wrong reason")
	}
	words := map[string]bool{}
	for _, r := range reasons {
		if words[r.word] {
			t.Errorf("%s stands for two errors", r.word)
		}
		words[r.word] = true
		if got := Reason(skip(bad("f", r.err))); got != r.word {
			t.Errorf("%v: %s", r.err, got)
		}
	}
	if got := drop(bad("seq", ErrSeq)).Error(); got != "drop the connection: firehose: seq: number is not within 1 to 2^53-1" {
		t.Errorf("error text %q", got)
	}
	if Reaction(9).String() != "drop the connection" || KindName(99) != "unknown" {
		t.Error("values out of range have no name")
	}
}

// TestAppendJSONRefuses: bad CBOR has no JSON form, and the error has the
// offset in the message.
func TestAppendJSONRefuses(t *testing.T) {
	var s Scanner
	for in, offset := range map[string]int{"": 0, "f7": 0, "a1626f7001": 5, "a1626f7001f7": 5, "a1626f70010000": 6} {
		got, err := s.AppendJSON([]byte("x"), unhex(t, in))
		var syntax *dagcbor.SyntaxError
		if string(got) != "x" || !errors.As(err, &syntax) || syntax.Offset != offset {
			t.Errorf("%s: got %s, %v", in, got, err)
		}
	}
}
