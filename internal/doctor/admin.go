package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

const (
	fewDescriptors = 4096
	// nearLimit is the share of a limit that is worth a word.
	nearLimit = 0.8
)

// ErrAdmin tells that an admin listener's address cannot be used.
var ErrAdmin = errors.New("bad address of the admin listener")

// ParseAdmin returns the base URL of the admin listener at an http or https URL,
// or at a host and a port as SLUICE_ADMIN has them. The error is ErrAdmin.
func ParseAdmin(address string) (string, error) {
	full := address
	if !strings.Contains(address, "://") {
		_, port, err := net.SplitHostPort(address)
		if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
			return "", fmt.Errorf("%w: %q is not host:port, a URL or off", ErrAdmin, address)
		}
		full = "http://" + address
	}
	u, err := url.Parse(full)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %q is not a URL", ErrAdmin, address)
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("%w: %q is not http or https", ErrAdmin, u.Scheme)
	case u.Hostname() == "":
		return "", fmt.Errorf("%w: %q has no host", ErrAdmin, address)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("%w: %q has more than a host and a path", ErrAdmin, u.Redacted())
	}
	return strings.TrimRight(full, "/"), nil
}

// checkAdmin looks at the admin listener: readiness, descriptors, connections.
func (d *doctor) checkAdmin(ctx context.Context) finding {
	switch {
	case d.Admin == "" && d.AdminGiven:
		return skip("the admin listener was turned off, by --admin off")
	case d.Admin == "":
		return skip("the admin listener was not asked: by default it is for a relay of this machine, see --admin")
	}
	base := strings.TrimRight(d.Admin, "/")
	ready, err := d.askAdmin(ctx, base+"/readyz")
	switch {
	case err != nil && d.AdminGiven:
		return warn(fmt.Sprintf("no admin listener at %s: %s", quote(base), err),
			"give the listener's address with --admin, as SLUICE_ADMIN has it, or --admin off")
	case err != nil:
		return skip("no admin listener at %s: %s", quote(base), err)
	}
	switch {
	case ready.status == http.StatusServiceUnavailable:
		return fail("not ready: "+quote(strings.TrimSpace(string(ready.body))),
			"it is being drained, or is behind: see docs/operations.md, Admin listener")
	case ready.status != http.StatusOK:
		return warn(base+"/readyz: "+ready.told(), "something else listens there: give the listener's address with --admin, as SLUICE_ADMIN has it")
	}
	a, err := d.askAdmin(ctx, base+"/metrics")
	if err != nil || a.status != http.StatusOK {
		return warn("ready, but its metrics cannot be read", "see the log of the relay")
	}
	m := readMetrics(string(a.body))
	if _, sluice := m["sluice_ready"]; !sluice {
		return warn("what listens at "+quote(base)+" is no relay", "give the listener's address with --admin, as SLUICE_ADMIN has it")
	}
	return judgeMetrics(m)
}

// judgeMetrics tells whether there is room.
func judgeMetrics(m map[string]float64) finding {
	fds, limit := m["sluice_descriptors_open"], m["sluice_descriptors_limit"]
	if limit == 0 {
		fds, limit = m["process_open_fds"], m["process_max_fds"]
	}
	conns, most := m["sluice_connections"], m["sluice_connections_limit"]
	seen := fmt.Sprintf("ready, %.0f of %.0f descriptors, %.0f of %.0f connections", fds, limit, conns, most)
	const raise = "raise LimitNOFILE of the unit, or --ulimit nofile of the container (docs/operations.md, Descriptors)"
	switch {
	case limit > 0 && fds > nearLimit*limit:
		return warn(seen, "descriptors run out: "+raise)
	case most > 0 && conns > nearLimit*most:
		return warn(seen, "connections near their limit: raise SLUICE_MAX_CONNS or the descriptors: "+raise)
	case m["sluice_loop_panics"] > 0:
		return warn(fmt.Sprintf("%s; %.0f panics were contained", seen, m["sluice_loop_panics"]), "that is a bug: please report it, with the log")
	case limit > 0 && limit < fewDescriptors:
		return warn(seen, "that is room for few consumers: "+raise)
	}
	return ok("%s", seen)
}

// askAdmin asks another listener than the relay's: without its token.
func (d *doctor) askAdmin(ctx context.Context, address string) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, reason(err)
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: d.http.CheckRedirect,
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, reason(err)
	}
	return readAnswer(response)
}

// readMetrics reads the samples without labels, and the sum of those that tell
// of panics.
func readMetrics(text string) map[string]float64 {
	m := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, found := strings.Cut(strings.TrimSpace(line), " ")
		if !found || strings.HasPrefix(name, "#") {
			continue
		}
		number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			continue
		}
		if strings.HasPrefix(name, "sluice_loop_panics_total{") {
			m["sluice_loop_panics"] += number
		} else if !strings.Contains(name, "{") {
			m[name] = number
		}
	}
	return m
}
