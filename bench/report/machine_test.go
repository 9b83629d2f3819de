package report

import (
	"runtime"
	"testing"
	"testing/fstest"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	f := func(name string, root fstest.MapFS, want Machine) {
		t.Helper()
		if got := describe(root); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	f("x86", fstest.MapFS{
		"proc/cpuinfo":              file("processor\t: 0\nmodel name\t: Some  CPU @ 2.00GHz\n\nprocessor\t: 1\nmodel name\t: Other\n"),
		"proc/meminfo":              file("MemTotal:        8388608 kB\nMemFree: 1 kB\n"),
		"proc/sys/kernel/osrelease": file("6.1.0-9-amd64\n"),
		"etc/os-release":            file("NAME=x\nPRETTY_NAME=\"Some Linux 12\"\n"),
	}, Machine{CPU: "Some CPU @ 2.00GHz", MemoryBytes: 8 << 30, Kernel: "6.1.0-9-amd64", OS: "Some Linux 12"})
	f("nothing to read", fstest.MapFS{}, Machine{CPU: runtime.GOARCH, OS: runtime.GOOS})
	f("no model name, odd memory", fstest.MapFS{
		"proc/cpuinfo": file("processor : 0\nCPU part : 0xd0c\n"),
		"proc/meminfo": file("MemTotal: many kB\n"),
	}, Machine{CPU: runtime.GOARCH, OS: runtime.GOOS})
	if m := Describe(); m.Cores != runtime.NumCPU() || m.GoVersion != runtime.Version() || m.CPU == "" || m.OS == "" {
		t.Errorf("this machine: %+v", m)
	}
}

func TestMachineString(t *testing.T) {
	t.Parallel()
	f := func(m Machine, want string) {
		t.Helper()
		if got := m.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(Machine{CPU: "X", Cores: 2}, "2 x X")
	f(Machine{CPU: "X", Cores: 2, MemoryBytes: 3 << 29, Kernel: "6.1", OS: "L", GoVersion: "go1", Writer: "uring"},
		"2 x X, 1.5 GiB, L, kernel 6.1, go1, writer uring")
}
