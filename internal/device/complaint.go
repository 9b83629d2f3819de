package device

import (
	"errors"
	"log/slog"
	"time"

	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// sayAgain is how long the same complaint is not repeated: a relay that is down
// for a day is tried 17,000 times.
const sayAgain = 5 * time.Minute

// complaint tells the log what goes wrong again and again. One goroutine.
type complaint struct {
	what, relay string
	said        string    // last
	again       time.Time // when it may be said again
}

// say logs an error, unless it was said a moment ago. That another process has
// re-keyed the device is nothing to complain of.
func (c *complaint) say(log *slog.Logger, now time.Time, err error) {
	text := err.Error()
	if errors.Is(err, devicestore.ErrOwnerChanged) || text == c.said && now.Before(c.again) {
		return
	}
	c.said, c.again = text, now.Add(sayAgain)
	log.Warn(c.what, "relay", c.relay, "err", err)
}
