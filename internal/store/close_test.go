package store

import (
	"bytes"
	"errors"
	"path/filepath"
	"sync"
	"testing"
)

// swept waits until the owners' rows are gone: a compaction takes its turns
// behind the sweep's slices, so a few runs outlast it.
func swept(t testing.TB, s *Store) {
	t.Helper()
	for range 10_000 {
		var n int
		if err := s.readers.db.QueryRow("SELECT count(*) FROM (" + selectUnswept + ")").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
		compactAllNow(t, s)
	}
	t.Fatal("rows of a closed owner stay")
}

// Cases 27 and 28; S42, S43.
func TestClose(t *testing.T) {
	s := open(t)
	push(t, s, alice, 2, 0, ev("1", "s"), ev("2", ""))
	if _, err := s.PutBlob(alice, "h", []byte("x")); err != nil {
		t.Fatal(err)
	}
	f := func(want Closed) {
		t.Helper()
		got, err := s.CloseOwner(alice)
		if err != nil || got != want {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
	}
	f(Closed{2, 1})
	f(Closed{})
	wantErr(t, "authorize to close", s.AuthorizeClose(alice), nil)
	for _, auth := range []Auth{alice, {alice.Owner, "other"}} {
		want := ErrOwnerClosed
		if auth != alice {
			want = ErrUnauthorized
			_, err := s.CloseOwner(auth)
			wantErr(t, "close", err, want)
		}
		_, err := s.Push(pushOf(auth, ev("3", "")))
		wantErr(t, "push", err, want)
		_, err = s.Pull(Pull{Auth: auth, Limit: 1}, nil)
		wantErr(t, "pull", err, want)
		_, err = s.Status(auth)
		wantErr(t, "status", err, want)
		_, err = s.Blob(auth, "h")
		wantErr(t, "blob", err, want)
		_, err = s.PutBlob(auth, "h", []byte("x"))
		wantErr(t, "put", err, want)
		_, err = s.CompactStreams(auth, []string{"s"})
		wantErr(t, "streams", err, want)
		wantErr(t, "admit", s.Admit(auth), want)
	}
	check(t, s)
	swept(t, s)
	if st := s.Stats(); st.TotalBytes != 0 || st.Owners != 1 {
		t.Fatalf("%+v", st)
	}
}

// S42: the rows go in slices, which a restart resumes; a compaction in between
// credits nothing for them.
func TestSweepResumes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sync.db")
	s := reopen(t, path)
	n := scale(1000)
	for i := range 8 {
		push(t, s, alice, n, 0, ids(string(rune('a'+i)), n, "s")...)
	}
	push(t, s, bob, 1, 0, ev("1", "s"))
	if got, err := s.CloseOwner(alice); err != nil || got.DeletedEvents != int64(8*n) {
		t.Fatalf("%+v, %v", got, err)
	}
	check(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, path)
	if r := compactAllNow(t, s); r != (Reclaimed{}) {
		t.Fatalf("a compaction credited a closed owner: %+v", r)
	}
	check(t, s)
	swept(t, s)
	check(t, s)
	if st := status(t, s, bob); st.Events != 1 {
		t.Fatalf("%+v", st)
	}
}

// Case 29: a close racing a push.
func TestCloseRacesPush(t *testing.T) {
	for range 20 {
		s := open(t)
		push(t, s, alice, 0, 0)
		var wg sync.WaitGroup
		var pushed error
		wg.Go(func() { _, pushed = s.Push(pushOf(alice, ev("1", "s"))) })
		if _, err := s.CloseOwner(alice); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if pushed != nil && !errors.Is(pushed, ErrOwnerClosed) {
			t.Fatal(pushed)
		}
		swept(t, s)
		check(t, s)
		if n := s.Stats().TotalBytes; n != 0 {
			t.Fatalf("%d bytes", n)
		}
	}
}

// Cases 31, 33, 35 and 36; S45.
func TestBlobs(t *testing.T) {
	s := open(t)
	const empty = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
	body := bytes.Repeat([]byte{0, 1, 0xff}, 300_000)
	put := func(auth Auth, hash string, body []byte, want bool) {
		t.Helper()
		got, err := s.PutBlob(auth, hash, body)
		if err != nil || got != want {
			t.Fatalf("%v, %v; want %v", got, err, want)
		}
	}
	if dup, err := s.AdmitBlob(alice, "h"); dup || err != nil {
		t.Fatalf("unknown owner: %v, %v", dup, err)
	}
	put(alice, empty, nil, true)
	put(alice, "h", body, true)
	put(alice, "h", body, false)
	put(bob, "h", body, true) // charged twice
	if dup, err := s.AdmitBlob(alice, "h"); !dup || err != nil {
		t.Fatalf("case 31: %v, %v", dup, err)
	}
	got, err := s.Blob(alice, "h")
	if err != nil || !bytes.Equal(got, body) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if got, err = s.Blob(alice, empty); err != nil || len(got) != 0 {
		t.Fatalf("case 33: %d bytes, %v", len(got), err)
	}
	if n, err := s.BlobSize(alice, "h"); err != nil || n != int64(len(body)) {
		t.Fatalf("%d, %v", n, err)
	}
	_, err = s.Blob(bob, empty)
	wantErr(t, "case 35", err, ErrUnknownBlob)
	_, err = s.BlobSize(bob, "none")
	wantErr(t, "case 36", err, ErrUnknownBlob)
	if st := status(t, s, alice); st.UsedBytes != int64(len(body)) || st.Blobs != 2 {
		t.Fatalf("%+v", st)
	}
	check(t, s)
}
