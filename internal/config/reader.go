package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-relay/sluice/internal/auth"
	"github.com/sluice-relay/sluice/internal/limit"
)

// VariableError says which variable is wrong and why.
type VariableError struct {
	Env string // name of the variable
	Err error
}

// Error implements error with one line: the variable and what is wrong.
func (e *VariableError) Error() string { return e.Env + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *VariableError) Unwrap() error { return e.Err }

// Causes that a caller may tell apart.
var (
	ErrNotNumber = errors.New("not a plain decimal integer")
	ErrRange     = errors.New("out of range")
	ErrHost      = errors.New("not an IP address or host name")
	ErrChoice    = errors.New("not one of the known values")
	ErrPath      = errors.New("not a usable path")
	ErrAdmin     = errors.New("not host:port or off")
	ErrDuration  = errors.New("not a duration such as 90s or 2m, or a number of seconds")
)

// reader reads variables one by one and keeps the first error.
type reader struct {
	lookup func(string) (string, bool)
	preset map[string]string // what stands for unset variables
	given  []string          // the variables that preset gave
	err    error
}

// fail keeps err for the variable unless an earlier one failed.
func (r *reader) fail(env string, err error) {
	if r.err == nil {
		r.err = &VariableError{Env: env, Err: err}
	}
}

// text returns the value of a variable, or the preset's when it is unset or
// empty, which are the same (R11).
func (r *reader) text(env string) string {
	if s, _ := r.lookup(env); s != "" {
		return s
	}
	s := r.preset[env]
	if s != "" && !slices.Contains(r.given, env) {
		r.given = append(r.given, env)
	}
	return s
}

// number reads a plain decimal integer from least to most.
func (r *reader) number(env string, unset, least, most int) int {
	return int(r.integer(env, int64(unset), int64(least), int64(most)))
}

// bytes reads a size in bytes of at least least.
func (r *reader) bytes(env string, unset, least int64) int64 {
	return r.integer(env, unset, least, math.MaxInt64)
}

func (r *reader) integer(env string, unset, least, most int64) int64 {
	s := r.text(env)
	if s == "" {
		return unset
	}
	// Base 10 takes digits only: no sign, space, prefix or underscore.
	n, err := strconv.ParseUint(s, 10, 63)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		r.fail(env, fmt.Errorf("%s is %w", quote(s), ErrNotNumber))
	case err != nil, int64(n) > most:
		r.fail(env, fmt.Errorf("%s is %w: at most %d", quote(s), ErrRange, most))
	case int64(n) < least:
		r.fail(env, fmt.Errorf("%s is %w: at least %d", quote(s), ErrRange, least))
	}
	return int64(n)
}

// choice reads one of a few words, without regard to case. The first is the
// default.
func (r *reader) choice(env string, words ...string) string {
	s := r.text(env)
	if s == "" {
		return words[0]
	}
	word := strings.ToLower(s)
	if !slices.Contains(words, word) {
		r.fail(env, choiceError(s, words))
	}
	return word
}

func choiceError(word string, words []string) error {
	return fmt.Errorf("%s is %w: %s", quote(word), ErrChoice, strings.Join(words, ", "))
}

// origins reads the list of R38.
func (r *reader) origins(env string) ([]string, bool) {
	list, anyOrigin, err := auth.ParseOrigins(r.text(env))
	if err != nil {
		r.fail(env, err)
	}
	return list, anyOrigin
}

// proxies reads the list of trusted proxies.
func (r *reader) proxies(env string) []string {
	list, err := limit.ParseProxies(r.text(env))
	if err != nil {
		r.fail(env, err)
	}
	return list
}

// duration reads a time span from 0 to most, 0 when unset: plain decimal
// seconds, or what time.ParseDuration reads, without a sign.
func (r *reader) duration(env string, most time.Duration) time.Duration {
	s := r.text(env)
	if s == "" {
		return 0
	}
	if strings.Trim(s, "0123456789") == "" {
		return time.Duration(r.number(env, 0, 0, int(most/time.Second))) * time.Second
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil, s[0] == '+', s[0] == '-':
		r.fail(env, fmt.Errorf("%s is %w", quote(s), ErrDuration))
	case d > most:
		r.fail(env, fmt.Errorf("%s is %w: at most %v", quote(s), ErrRange, most))
	}
	return d
}

// path reads the path of a file.
func (r *reader) path(env string) string {
	s := r.text(env)
	if why := unusablePath(s, maxPathBytes); s != "" && why != "" {
		r.fail(env, fmt.Errorf("%s is %w: %s", quote(s), ErrPath, why))
	}
	return s
}

const (
	maxPathBytes     = 4095 // PATH_MAX less its NUL, limits.h(0p)
	maxUnixPathBytes = 107  // sun_path less its NUL, unix(7)
)

// unusablePath says what is wrong with a path, "" if nothing is. It has to fit
// on one line of --print-config and of a log.
func unusablePath(path string, mostBytes int) string {
	switch {
	case len(path) > mostBytes:
		return fmt.Sprintf("longer than %d bytes", mostBytes)
	case !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl):
		return "it holds control characters or is not UTF-8"
	}
	return ""
}

// admin reads host:port, or the word off, for which it returns "". The host is
// an IP address, in brackets when it is IPv6, a host name, or empty for every
// interface.
func (r *reader) admin(env, unset string) string {
	s := r.text(env)
	switch {
	case s == "":
		return unset
	case strings.EqualFold(s, adminOff):
		return ""
	}
	host, port, err := net.SplitHostPort(s)
	if err == nil && host != "" {
		_, err = bindHost(host)
	}
	if err == nil && !validPort(port) {
		err = ErrRange
	}
	if err != nil {
		r.fail(env, fmt.Errorf("%s is %w", quote(s), ErrAdmin))
		return ""
	}
	return s
}

// adminOff is the value of SLUICE_ADMIN for no admin listener.
const adminOff = "off"

// validPort reports whether s is 0 to 65535 in plain decimal.
func validPort(s string) bool {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return false
	}
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

// host reads a bind address: that of a Unix socket, or what [bindHost] reads.
func (r *reader) host(env string) string {
	s := r.text(env)
	if s == "" {
		return ""
	}
	if path, unix := strings.CutPrefix(s, unixPrefix); unix {
		why := unusablePath(path, maxUnixPathBytes)
		if why == "" && (!strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/")) {
			why = "a Unix socket needs the absolute path of a file, as in unix:/run/sluice/socket"
		}
		if why != "" {
			r.fail(env, fmt.Errorf("%s is %w: %s", quote(s), ErrPath, why))
		}
		return s
	}
	host, err := bindHost(s)
	if err != nil {
		hint := ""
		if _, err := netip.ParseAddrPort(s); err == nil || strings.Count(s, ":") == 1 {
			hint = ": the port belongs in " + EnvPort
		}
		r.fail(env, fmt.Errorf("%s is %w%s", quote(s), err, hint))
	}
	return host
}

// bindHost reads an IP address, in or without brackets when it is IPv6, or a
// host name. It comes back without brackets.
func bindHost(s string) (string, error) {
	inner, bracketed := strings.CutPrefix(s, "[")
	if bracketed {
		inner, bracketed = strings.CutSuffix(inner, "]")
	}
	addr, err := netip.ParseAddr(inner)
	switch {
	case strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f }):
		// No address and no name; a zone would let it through.
	case err == nil && (!bracketed || addr.Is6()) && (bracketed || inner == s):
		return addr.String(), nil
	case err != nil && inner == s && validName(s):
		return s, nil
	}
	return "", ErrHost
}

// validName reports whether s is a host name: labels of letters, digits,
// hyphens and underscores, 253 octets in all (RFC 1123 section 2.1), and
// the last label no number, or it would be a misspelt IPv4 address.
func validName(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > 253 {
		return false
	}
	digits := false
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		digits = true
		for _, c := range []byte(label) {
			digit := c >= '0' && c <= '9'
			letter := c|0x20 >= 'a' && c|0x20 <= 'z'
			if !digit && !letter && c != '-' && c != '_' {
				return false
			}
			digits = digits && digit
		}
	}
	return !digits
}

// quote quotes a value for an error line and cuts it to a bound, so that the
// error stays one line of sensible length whatever the variable holds.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strconv.Quote(s)
}
