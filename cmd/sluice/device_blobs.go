package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v3"

	"github.com/sluice-relay/sluice/internal/device"
)

// Flags of the commands about files.
const (
	flagDeviceMIME  = "mime"
	flagDeviceBlobs = "blobs"
)

// sniffBytes is what the type of content is guessed from.
const sniffBytes = 512

const deviceAttachHelp = `Takes a file into the device, and prints the id under which every device of the
owner can fetch it:

   sluice device attach picture.jpg
   tar c photos | sluice device attach --mime application/x-tar -

The content is encrypted in pieces of 256 KiB, and goes to the relays with the next
sync. It is described by a row of the table blob: "sluice device list blob" shows
those, and "sluice device delete blob ID" gives a file up. A file has no name there;
what it is to its owner is for a row to say:

   blob=$(sluice device attach picture.jpg)
   sluice device put pictures beach '{"blob":"'$blob'"}'`

const deviceFetchHelp = `Writes an attached file:

   sluice device fetch BLOB picture.jpg
   sluice device fetch BLOB > picture.jpg

Pieces that are not here are fetched from the relays, and kept: an interrupted fetch
goes on where it ended. Each is checked before it is decrypted, and the whole before
anything is written. A FILE that is there is replaced when all is well. On a terminal
a FILE is needed, or - to write there.`

func (a *app) deviceAttachCommand() *cli.Command {
	return a.devicePart("attach", "take a file into the device", "FILE|-", deviceAttachHelp, (*deviceRun).attach,
		&cli.StringFlag{Name: flagDeviceMIME, Usage: "`TYPE` of the content", DefaultText: "by name or content"},
		deviceJSONFlag("print the row that describes it"), deviceSyncFlag())
}

func (a *app) deviceFetchCommand() *cli.Command {
	return a.devicePart("fetch", "write an attached file", "BLOB [FILE|-]", deviceFetchHelp, (*deviceRun).fetch)
}

func (r *deviceRun) attach(ctx context.Context) error {
	args, err := r.arguments(1, 1)
	if err != nil {
		return err
	}
	if err := notEmpty(r.cmd, flagDeviceMIME); err != nil {
		return r.usage("%s", err)
	}
	input, name := r.stdin(ctx), "stdin"
	if args[0] != "-" {
		f, err := os.Open(args[0])
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // only read from
		input, name = f, filepath.Base(args[0])
	}
	kind := r.cmd.String(flagDeviceMIME)
	if kind == "" {
		if kind, input, err = contentType(name, input); err != nil {
			return err
		}
	}
	return r.with(func(d *device.Device) error {
		bar := r.startBar("attach")
		m, err := d.Attach(ctx, input, kind, name, bar.progress)
		bar.end()
		if err != nil {
			return err
		}
		if r.cmd.Bool(flagDeviceJSON) {
			err = r.printJSONTo(m)
		} else {
			_, err = fmt.Fprintln(r.out, m.BlobID)
		}
		if err != nil {
			return err
		}
		return r.syncIfAsked(ctx, d)
	})
}

// contentType returns the type of a file by its name, else by how it begins, and
// what is then to be read: a file stays one, since that can tell its size.
func contentType(name string, in io.Reader) (string, io.Reader, error) {
	if kind := mime.TypeByExtension(filepath.Ext(name)); kind != "" {
		return kind, in, nil
	}
	if f, ok := in.(*os.File); ok {
		head := make([]byte, sniffBytes)
		if n, err := f.ReadAt(head, 0); err == nil || errors.Is(err, io.EOF) {
			return http.DetectContentType(head[:n]), f, nil
		}
	}
	b := bufio.NewReaderSize(in, stdinBytes)
	head, err := b.Peek(sniffBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", nil, err
	}
	return http.DetectContentType(head), b, nil
}

func (r *deviceRun) fetch(ctx context.Context) error {
	args, err := r.arguments(1, 2)
	if err != nil {
		return err
	}
	file := "-"
	switch {
	case len(args) == 2:
		if file = args[1]; file == "" {
			return r.usage("the FILE's name is empty")
		}
	case terminal(r.stdout) != nil:
		return r.usage("standard output is a terminal: name a FILE, or - to write there")
	}
	return r.with(func(d *device.Device) error {
		bar := r.startBar("fetch")
		defer bar.end()
		if file == "-" {
			return d.Fetch(ctx, args[0], r.out, bar.progress)
		}
		return d.FetchFile(ctx, args[0], file, bar.progress)
	})
}

// byteBar shows how far a file is, if somebody looks at it. One goroutine.
type byteBar struct {
	to   *os.File // nil if nobody looks
	what string
	bar  *progressbar.ProgressBar
}

// startBar returns a bar on standard error, which appears with the first progress.
func (r *deviceRun) startBar(what string) *byteBar {
	return &byteBar{to: terminal(r.stderr), what: what}
}

func (b *byteBar) start(size int64) {
	b.bar = progressbar.NewOptions64(
		size, progressbar.OptionSetWriter(b.to), progressbar.OptionSetDescription(b.what),
		progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}

// progress takes what is done of how many bytes, 0 for not known.
func (b *byteBar) progress(p device.Progress) {
	switch {
	case b.to == nil:
		return
	case b.bar == nil && p.Total > 0:
		b.start(p.Total)
	case b.bar == nil:
		b.start(-1)
	}
	_ = b.bar.Set64(p.Done) // a bar that stays is no harm
}

// end takes the bar away.
func (b *byteBar) end() {
	if b.bar != nil {
		_ = b.bar.Clear()
	}
}
