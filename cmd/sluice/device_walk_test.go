package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/testrelay"
)

// The chapter "A device" of docs/sync.md does what it says: its commands are run
// one after the other against a real relay, which loses its data where the
// chapter says so.
func TestDeviceWalkThrough(t *testing.T) {
	text, err := os.ReadFile("../../docs/sync.md")
	if err != nil {
		t.Fatal(err)
	}
	_, chapter, _ := strings.Cut(string(text), "\n## A device\n")
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	walk, lost, found := strings.Cut(chapter, "\n### When the relay loses its data\n")
	if !found {
		t.Fatal("there is no chapter of a relay that loses its data")
	}
	dir, data := t.TempDir(), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := "#!/bin/sh\n" + asProgram + "=1 exec '" + self + "' \"$@\"\n"
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", "sluice"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	port := "AEP_PORT=" + testrelay.FixedPort(t)
	p, url := syncRelay(t, data, port)
	address := strings.TrimPrefix(url, "http://")
	if n := runBlocks(t, dir, address, walk); n < 5 {
		t.Fatalf("%d blocks before the loss", n)
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	for _, name := range []string{"sync.db", "sync.db-wal", "sync.db-shm"} {
		if err := os.Remove(filepath.Join(data, name)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	syncRelay(t, data, port)
	if n := runBlocks(t, dir, address, lost); n < 2 {
		t.Fatalf("%d blocks after the loss", n)
	}
	for _, name := range []string{"laptop", "server"} {
		if got := mustDevice(t, filepath.Join(dir, name), "", "get", "notes", "today"); got != "{\"text\":\"hello again\"}\n" {
			t.Errorf("%s: %q", name, got)
		}
		if state := statusOf(t, filepath.Join(dir, name)).Relays[0].State; state != "synced" {
			t.Errorf("%s: %s", name, state)
		}
	}
}

// runBlocks runs the shell blocks of a text, but for those that never end, and
// returns how many there were.
func runBlocks(t *testing.T, dir, address, text string) (n int) {
	t.Helper()
	for {
		_, rest, found := strings.Cut(text, "\n```sh\n")
		if !found {
			return n
		}
		block, rest, found := strings.Cut(rest, "\n```\n")
		if !found {
			t.Fatal("a block has no end")
		}
		text = "\n" + rest
		if strings.Contains(block, "make run") || strings.Contains(block, "device watch") {
			continue
		}
		n++
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-e", "-c", strings.ReplaceAll(block, "127.0.0.1:8787", address))
		cmd.Dir, cmd.WaitDelay = dir, patience
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s\n%s", err, block, out)
		}
	}
}
