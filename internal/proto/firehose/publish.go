package firehose

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/engine/serve"
)

// frameType is the content type of a frame to publish (F52).
const frameType = "application/vnd.ipld.dag-cbor"

// publish implements POST /firehose/publish as far as the head goes (F52).
func (s *Surface) publish(x *serve.Exchange) {
	h := x.Head
	switch contentType := h.Header("Content-Type"); {
	case len(contentType) > 0 && !bytes.EqualFold(contentType, []byte(frameType)):
		s.refuse(x, refusedRequest, 400, "InvalidRequest", "the content type is not "+frameType)
	case h.ContentLength > int64(s.cfg.MaxFrameBytes):
		s.refuse(x, refusedFrame, 413, "FrameTooBig", "the frame is too big, use #sync")
	default:
		x.Keep()
		x.ReadBody(&intake{s: s, w: x.Worker()})
	}
}

// intake is the body of a publish: one frame (F52). It implements serve.Body.
// Owned by the loop, and the frame by the job once it is whole.
type intake struct {
	s     *Surface
	w     *serve.Worker
	frame []byte
	taken int64 // of the budget
}

// Data implements serve.Body.
func (b *intake) Data(x *serve.Exchange, p []byte) {
	switch {
	case len(b.frame)+len(p) > b.s.cfg.MaxFrameBytes:
		b.s.refuse(x, refusedFrame, 413, "FrameTooBig", "the frame is too big, use #sync")
	case !x.TakeBudget(int64(len(p))):
		b.s.refuse(x, refusedPublish, 503, "NotListening", "no memory for the frame", retryField)
	default:
		b.taken += int64(len(p))
		b.frame = append(b.frame, p...)
	}
}

// End implements serve.Body. To publish may wait for a reservation of numbers,
// so it is a job, which counts against the budget even when nobody waits for it
// any more.
func (b *intake) End(x *serve.Exchange) {
	s, w, message, taken := b.s, b.w, b.frame, b.taken
	b.taken = 0
	err := x.Go(func() func(*serve.Exchange) {
		defer w.GiveBudget(taken)
		seq, err := s.publishMessage(message)
		return func(x *serve.Exchange) { s.answerPublished(x, seq, err) }
	})
	if err != nil {
		w.GiveBudget(taken)
		s.refuse(x, refusedPublish, 503, "NotListening", "too many requests, try again", retryField)
	}
}

// Done implements serve.Body.
func (b *intake) Done() {
	b.w.GiveBudget(b.taken)
	b.taken, b.frame = 0, nil
}

// errFrame tells of a message that is no frame to publish.
var errFrame = errors.New("firehose: not a frame to publish")

// publishMessage reads and publishes one frame.
func (s *Surface) publishMessage(message []byte) (seq int64, err error) {
	scanner := firehose.Scanner{MaxFrameBytes: s.cfg.MaxFrameBytes}
	frame := new(firehose.Frame)
	if err := scanner.ScanPublished(message, frame); err != nil {
		if scan, ok := errors.AsType[*firehose.ScanError](err); ok {
			err = scan.Err // what is to be done about it is for readers of other hosts
		}
		return 0, fmt.Errorf("%w: %w", errFrame, err)
	}
	return s.parts.Producer.Publish(frame)
}

func (s *Surface) answerPublished(x *serve.Exchange, seq int64, err error) {
	switch {
	case err == nil:
		s.published.Add(1)
		s.answer(x, 200, append(strconv.AppendInt([]byte(`{"seq":`), seq, 10), '}'))
	case errors.Is(err, errFrame):
		s.refuse(x, refusedFrame, 400, "InvalidRequest", err.Error())
	case errors.Is(err, ErrFrameTooBig):
		s.refuse(x, refusedFrame, 413, "FrameTooBig", "the frame is too big, use #sync")
	default: // F28, F46, or not listening
		s.parts.Log.Error("firehose publish failed", "error", err)
		s.refuse(x, refusedPublish, 503, "NotListening", "nothing can be published now", retryField)
	}
}
