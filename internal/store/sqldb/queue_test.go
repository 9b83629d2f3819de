package sqldb

import (
	"errors"
	"testing"
)

var errOver = errors.New("over")

func TestQueue(t *testing.T) {
	q := NewQueue[*int](3, 100, errOver)
	put := func(bytes int64, want error) {
		t.Helper()
		if err := q.Put(new(int), bytes); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", bytes, err, want)
		}
	}
	put(200, nil) // passes an empty queue
	put(1, ErrBusy)
	if q.Take() == nil || q.Take() != nil {
		t.Error("what was put is not what is taken")
	}
	put(1, ErrBusy) // it counts until its release
	q.Release(200)
	put(99, nil)
	put(2, ErrBusy)
	put(1, nil)
	put(0, nil)
	put(0, ErrBusy) // by count
	if waiting, stopped := q.State(); waiting != 3 || stopped {
		t.Errorf("%d wait, stopped %v", waiting, stopped)
	}
	if count, bytes := q.Load(); count != 3 || bytes != 100 {
		t.Errorf("%d requests of %d bytes", count, bytes)
	}
	<-q.Ready()
	q.Stop()
	<-q.Ready()
	put(0, errOver)
	if waiting, stopped := q.State(); waiting != 3 || !stopped || q.Take() == nil {
		t.Errorf("%d wait after the stop, stopped %v", waiting, stopped)
	}
}
