package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/device"
)

// Flags about the credential of an owner.
const (
	flagDeviceWords      = "words"
	flagDeviceNative     = "native-key"
	flagDevicePhraseFile = "phrase-file"
)

// defaultWords is the length of a new owner's phrase (D3).
const defaultWords = 12

// errHidden marks an error of a command that must be told also when standard
// output is closed.
var errHidden = errors.New("the phrase could not be printed")

// errSecretArgument refuses a secret on the command line, without the secret (D5).
var errSecretArgument = fmt.Errorf("a phrase or key is never an argument, since everyone on the machine sees those: "+
	"use --%s FILE, --%s - for standard input, or %s; if this one was in use, it is known now: re-key",
	flagDevicePhraseFile, flagDevicePhraseFile, envDevicePhrase)

// newSecretFlags are the flags of a command that makes a new phrase.
func newSecretFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: flagDeviceWords, Usage: "`COUNT` of words: 12, 15, 18, 21 or 24", Value: defaultWords},
		&cli.BoolFlag{Name: flagDeviceNative, Usage: "a key in place of a phrase: sf1_ and 43 characters"},
	}
}

// newSecret makes the credential that the flags of newSecretFlags ask for.
func (r *deviceRun) newSecret() (string, error) {
	words := r.cmd.Int(flagDeviceWords)
	switch {
	case r.cmd.Bool(flagDeviceNative) && r.cmd.IsSet(flagDeviceWords):
		return "", r.usage("--%s has no words: leave out --%s", flagDeviceNative, flagDeviceWords)
	case r.cmd.Bool(flagDeviceNative):
		return synccrypt.NewNativeKey(rand.Reader)
	case words < 12 || words > 24 || words%3 != 0:
		return "", r.usage("--%s is 12, 15, 18, 21 or 24", flagDeviceWords)
	}
	return synccrypt.NewPhrase(words, rand.Reader)
}

// noSecretArguments refuses all arguments, and flags whose value is a secret.
func (r *deviceRun) noSecretArguments() error {
	if r.cmd.Args().Present() || secretLike(r.cmd.String(flagDevicePhraseFile)) {
		return r.usage("%s", errSecretArgument)
	}
	return nil
}

// secretLike tells whether a text is more likely a credential than a file's name.
func secretLike(text string) bool {
	_, _, err := synccrypt.ParseCredential(text)
	return err == nil || len(strings.Fields(text)) >= defaultWords || strings.HasPrefix(strings.TrimSpace(text), "sf1_")
}

// secret returns the credential of an owner: of the flag's file, of the variable,
// or as it is typed on a terminal without being shown (D5). An error never holds
// it.
func (r *deviceRun) secret(ctx context.Context) (string, error) {
	file := r.cmd.String(flagDevicePhraseFile)
	switch {
	case file == "" && r.cmd.IsSet(flagDevicePhraseFile):
		return "", r.usage("--%s is empty", flagDevicePhraseFile)
	case file != "":
		return device.ReadCredential(file, r.stdin(ctx))
	}
	if text := r.variable(envDevicePhrase); text != "" {
		return device.TrimCredential(text)
	}
	f, ok := r.cmd.Root().Reader.(*os.File)
	if !ok || !isatty.IsTerminal(f.Fd()) {
		return "", r.usage("give the phrase with --%s FILE, --%s - or %s", flagDevicePhraseFile, flagDevicePhraseFile, envDevicePhrase)
	}
	text, err := r.typed(ctx, f)
	if err != nil {
		return "", err
	}
	return device.TrimCredential(text)
}

// typed asks for a secret on a terminal, which does not show it. A signal ends it
// and leaves the terminal as it was.
func (r *deviceRun) typed(ctx context.Context, f *os.File) (string, error) {
	state, err := term.GetState(int(f.Fd()))
	if err != nil {
		return "", err
	}
	type line struct {
		text []byte
		err  error
	}
	lines := make(chan line, 1) // so that a reader that is left ends when it can
	fmt.Fprint(r.stderr, "phrase (not shown): ")
	go func() {
		text, err := term.ReadPassword(int(f.Fd()))
		lines <- line{text, err}
	}()
	defer fmt.Fprintln(r.stderr)
	select {
	case l := <-lines:
		return string(l.text), l.err
	case <-ctx.Done():
		return "", errors.Join(ctx.Err(), term.Restore(int(f.Fd()), state))
	}
}

// show prints a new credential, alone on standard output. The device has it
// already, so that an error says where.
func (r *deviceRun) show(secret, dir string) error {
	if _, err := fmt.Fprintln(r.out, secret); err != nil {
		return fmt.Errorf("%w: %w: it is the line in %s", errHidden, err, credentialPath(dir))
	}
	return nil
}
