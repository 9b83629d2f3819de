package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/device"
)

// Flags of the commands about identity.
const (
	flagDeviceName  = "name"
	flagDeviceRelay = "relay"
	flagDeviceForce = "force"
)

const deviceInitHelp = `Makes a new owner and its first device, and prints the phrase:

   sluice device init > phrase.txt
   sluice device init --words 24 --name laptop --relay https://relay.example

The phrase alone goes to standard output. It is the only way back to the data, and
whoever has it can read all of it: write it down and keep it apart. It is also in
the file "credential" of the directory, which only its user may read.

Nothing is asked of a relay yet: "sluice device sync" does that.

Rows, clocks and streams have forms of this program's own: a device of another
program must not share this owner, even if it takes the same phrase.`

const deviceRestoreHelp = `Makes one more device of an owner, or brings the only one back:

   sluice device restore --phrase-file phrase.txt --relay https://relay.example
   sluice device sync --blobs

The phrase comes from a file, from standard input with --phrase-file -, from
` + envDevicePhrase + `, or is asked for on a terminal without being shown. It is never
an argument, since everyone on the machine sees those. Case and blanks between the
words do not matter. With a wrong word or a wrong checksum nothing is made.

Devices of one owner must have different names; without --name it is a random one.`

const deviceRekeyHelp = `Gives the owner a new phrase, and closes the old owner at the relays: for when a
phrase became known, or a device was stolen.

   sluice device rekey > new-phrase.txt

First everything is fetched under the old phrase; a relay that does not answer stops
it, unless --force. Then all rows and files are encrypted and sent again under the
new owner. The old one is closed at a relay once that relay has all of the new: now,
or with the next sync if it cannot be reached.

Every other device is told by its relay that the owner is closed, and follows with
the same phrase:

   sluice device rekey --phrase-file new-phrase.txt

What the old phrase could read before, it could have read: a re-key protects what is
written from now on. If it is interrupted, the next command finishes it.`

func deviceNameFlag() cli.Flag {
	return &cli.StringFlag{Name: flagDeviceName, Usage: "the device's `NAME`: 1 to 64 of a-z, 0-9 and -", DefaultText: "a random one"}
}

func deviceRelayFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: flagDeviceRelay, Usage: "`URL` of a relay; may be repeated"}
}

func devicePhraseFlag(otherwise string) cli.Flag {
	return &cli.StringFlag{
		Name: flagDevicePhraseFile, Usage: "`FILE` with the phrase, - for standard input [" + envDevicePhrase + "]", DefaultText: otherwise,
	}
}

func (a *app) deviceInitCommand() *cli.Command {
	return a.devicePart("init", "make a new owner and its first device, and print the phrase", "", deviceInitHelp,
		(*deviceRun).init, append(newSecretFlags(), deviceNameFlag(), deviceRelayFlag())...)
}

func (a *app) deviceRestoreCommand() *cli.Command {
	return a.devicePart("restore", "make a device of an owner whose phrase is known", "", deviceRestoreHelp,
		(*deviceRun).restore, devicePhraseFlag("asked for"), deviceNameFlag(), deviceRelayFlag())
}

func (a *app) deviceRekeyCommand() *cli.Command {
	return a.devicePart("rekey", "give the owner a new phrase and close the old one", "", deviceRekeyHelp, (*deviceRun).rekey,
		append(newSecretFlags(), devicePhraseFlag("a new one, which is printed"),
			&cli.BoolFlag{Name: flagDeviceForce, Usage: "also if a relay cannot be asked for what is missing here"})...)
}

// credentialPath is where a device keeps its phrase.
func credentialPath(dir string) string { return filepath.Join(dir, "credential") }

func (r *deviceRun) init(context.Context) error {
	if err := r.noSecretArguments(); err != nil {
		return err
	}
	secret, err := r.newSecret()
	if err != nil {
		return err
	}
	dir, err := r.create(secret)
	if err != nil {
		return err
	}
	if err := r.show(secret, dir); err != nil {
		return err
	}
	r.say("the line on standard output is the only way back to the data, and lets everyone read it who has it: " +
		"write it down and keep it apart")
	r.say("use it with this program only: a device of another program must not share this owner")
	return nil
}

func (r *deviceRun) restore(ctx context.Context) error {
	if err := r.noSecretArguments(); err != nil {
		return err
	}
	secret, err := r.secret(ctx)
	if err != nil {
		return err
	}
	if _, err := r.create(secret); err != nil {
		return err
	}
	r.say("next: \"sluice device sync\" fetches the rows, with --blobs the files too")
	return nil
}

// create makes a device with its relays and says so. All that can be wrong with
// the command line is looked at before anything is made.
func (r *deviceRun) create(secret string) (dir string, err error) {
	if dir, err = r.dir(); err != nil {
		return dir, err
	}
	name := r.cmd.String(flagDeviceName)
	if r.cmd.IsSet(flagDeviceName) && !synccrypt.ValidDeviceID(name) {
		return dir, r.usage("--%s is 1 to 64 of a-z, 0-9 and -", flagDeviceName)
	}
	relays := r.cmd.StringSlice(flagDeviceRelay)
	for _, url := range relays {
		if err := r.checkRelay(url); err != nil {
			return dir, err
		}
	}
	d, err := device.Create(dir, secret, name, device.Options{})
	if err != nil {
		return dir, presentDevice(dir, err)
	}
	for _, url := range relays {
		if err := d.AddRelay(url); err != nil {
			err = fmt.Errorf("the device is made, but not with all its relays: %w: go on with \"sluice device relay add\"", err)
			return dir, errors.Join(err, d.Close())
		}
	}
	r.say("device %s of owner %s in %s", d.DeviceID(), d.OwnerID(), dir)
	if len(relays) == 0 {
		r.say("no relay yet: \"sluice device relay add URL\"")
	}
	return dir, d.Close()
}

// checkRelay refuses what is no address of a relay, and warns of one to which the
// token would go in clear.
func (r *deviceRun) checkRelay(url string) error {
	if url == "" {
		return r.usage("the relay's address is empty")
	}
	url, err := device.RelayURL(url)
	if err != nil {
		return r.usage("%s", err)
	}
	relay, err := client.New(url, "")
	if err != nil {
		return r.usage("%s", err)
	}
	if relay.Base.Scheme == "http" && !relay.Local() {
		r.say("warning: %s is not encrypted: everyone on the way sees the token, and can close the owner or fill its quota "+
			"with it, though not read the rows; use https", relay)
	}
	return nil
}

func (r *deviceRun) rekey(ctx context.Context) error {
	if err := r.noSecretArguments(); err != nil {
		return err
	}
	given := r.cmd.IsSet(flagDevicePhraseFile) || r.variable(envDevicePhrase) != ""
	choose := func(context.Context) (string, error) { return r.newSecret() }
	if given {
		if r.cmd.IsSet(flagDeviceWords) || r.cmd.Bool(flagDeviceNative) {
			return r.usage("the phrase is given: leave out --%s and --%s", flagDeviceWords, flagDeviceNative)
		}
		choose = r.secret
	}
	secret, err := choose(ctx)
	if err != nil {
		return err
	}
	dir, err := r.dir()
	if err != nil {
		return err
	}
	return r.with(func(d *device.Device) error {
		old := d.OwnerID()
		line := r.startSyncLine()
		err := d.Rekey(ctx, secret, device.RekeyOptions{Force: r.cmd.Bool(flagDeviceForce), Progress: line.progress})
		line.end()
		if d.OwnerID() == old {
			return err
		}
		// Also with an error: from here on the new phrase is the only way back.
		r.say("owner %s follows %s", d.OwnerID(), old)
		if !given {
			err = errors.Join(r.show(secret, dir), err)
			r.say("the line on standard output is from now on the only way back to the data: write it down and keep it apart")
		}
		r.say("next, on each other device: \"sluice device rekey\" with the same phrase")
		return err
	})
}
