package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
)

// Secret is a text that no formatting shows: fmt with any verb, slog and the
// text encodings write "(set)" or "(unset)". The text is kept behind a
// pointer, so that reflection over an enclosing value prints an address at
// most. The zero value is unset.
type Secret struct {
	text *string
}

// NewSecret wraps text; an empty one is unset.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text}
}

// IsSet reports whether there is a text.
func (s Secret) IsSet() bool { return s.text != nil }

// Reveal returns the text, "" when unset. The caller must not log it.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String returns "(set)" or "(unset)".
func (s Secret) String() string {
	if s.IsSet() {
		return "(set)"
	}
	return "(unset)"
}

// Format implements fmt.Formatter: every verb writes [Secret.String].
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements encoding.TextMarshaler, and so covers JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// values returns the value of each variable in the order of [Variables], as
// a reader of the environment would write it, with secrets masked.
func (c Config) values() []string {
	origins := strings.Join(c.Origins, ",")
	if c.AnyOrigin {
		origins = "*"
	}
	bytes := func(n int64) string { return strconv.FormatInt(n, 10) }
	return append([]string{
		strconv.Itoa(c.Port),
		c.Host,
		origins,
		c.Token.String(),
		c.TokenFile,
		strconv.Itoa(c.BufferEvents),
		strconv.Itoa(c.MaxSessions),
		bytes(c.MaxBodyBytes),
		strconv.Itoa(c.MaxBatchEvents),
		strconv.Itoa(c.MaxFrom),
		bytes(c.BufferBytes),
		strings.Join(c.Surfaces, ","),
		c.Data,
		c.Profile,
		cmp.Or(c.Admin, adminOff),
		strconv.Itoa(c.MaxConns),
		strconv.Itoa(c.MaxConnsPerIP),
		strconv.Itoa(c.IngestRate),
		strconv.Itoa(c.IngestBurst),
		strings.Join(c.TrustedProxies, ","),
		c.Drain.String(),
		strconv.Itoa(c.Loops),
		strconv.Itoa(c.SendBufferBytes),
		c.LogFormat,
		strings.ToLower(c.LogLevel.String()),
		map[bool]string{false: "off", true: "on"}[c.AccessLog],
		orOff(c.GCPercent, GCOff),
		orOff(c.MemoryLimitBytes, NoMemoryLimit),
	}, slices.Concat(c.syncValues(), c.firehoseValues(), c.aepwsValues())...)
}

// orOff returns n in decimal, or off for the number that stands for none.
func orOff[T int | int64](n, none T) string {
	if n == none {
		return gcOff
	}
	return strconv.FormatInt(int64(n), 10)
}

// String returns one NAME=value line per variable, secrets masked. Apart
// from those the lines give the same configuration when read back.
func (c Config) String() string {
	var b strings.Builder
	values := c.values()
	for i, v := range Variables() {
		b.WriteString(v.Env + "=" + values[i] + "\n")
	}
	return b.String()
}

// GoString returns the same as String, so that %#v shows no token either.
func (c Config) GoString() string { return c.String() }

// LogValue implements slog.LogValuer: one attribute per variable, secrets
// masked.
func (c Config) LogValue() slog.Value {
	values := c.values()
	attrs := make([]slog.Attr, 0, len(values))
	for i, v := range Variables() {
		attrs = append(attrs, slog.String(v.Env, values[i]))
	}
	return slog.GroupValue(attrs...)
}
