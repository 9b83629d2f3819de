package device

import (
	"testing"
)

// D35: the 404 of something that is no relay, or of a relay that is not well, is
// not that of a relay which knows no owner yet: nothing is in sync with it.
func TestNotFoundByNoRelay(t *testing.T) {
	for name, health := range map[string]struct {
		status int
		body   string
		ok     bool
	}{
		"a relay":      {200, `{"ok":true,"features":[]}`, true},
		"one not well": {200, `{"ok":false}`, false},
		"a web server": {404, "<html>", false},
		"a page":       {200, "<html>", false},
	} {
		s := newScript(t)
		s.on("health", say(health.status, health.body))
		s.on("status", say(404, "<html>"))
		s.on("pull", say(404, "<html>"))
		d := makeDevice(t, newKey(t), "a", Options{})
		join(t, d, s.URL)
		for range 2 {
			_, err := d.Sync(t.Context(), SyncOptions{})
			if rel := relayOf(t, d); (err == nil) != health.ok || rel.SyncedAt.IsZero() == health.ok || (rel.Pull.Reason == "") != health.ok {
				t.Errorf("%s: %v, synced at %v, receiving %+v", name, err, rel.SyncedAt, rel.Pull)
			}
		}
	}
}
