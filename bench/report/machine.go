package report

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Describe returns the machine that the process runs on, without Writer. What
// cannot be found out is left empty, or named by Go's word for the platform.
func Describe() Machine {
	m := describe(os.DirFS("/"))
	m.Cores = runtime.NumCPU()
	m.GoVersion = runtime.Version()
	return m
}

// describe reads what the files of a Linux system say.
func describe(root fs.FS) Machine {
	m := Machine{CPU: runtime.GOARCH, OS: runtime.GOOS}
	if model := field(root, "proc/cpuinfo", "model name", ":"); model != "" {
		m.CPU = strings.Join(strings.Fields(model), " ")
	}
	if name := field(root, "etc/os-release", "PRETTY_NAME", "="); name != "" {
		m.OS = strings.Trim(name, `"'`)
	}
	if release, err := fs.ReadFile(root, "proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(release))
	}
	// "MemTotal:        8123456 kB", proc(5).
	kib, unit, _ := strings.Cut(field(root, "proc/meminfo", "MemTotal", ":"), " ")
	if n, err := strconv.ParseInt(kib, 10, 53); err == nil && unit == "kB" {
		m.MemoryBytes = n << 10
	}
	return m
}

// field returns the value of the first line "name <separator> value".
func field(root fs.FS, file, name, separator string) string {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		key, value, found := strings.Cut(line, separator)
		if found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// String returns the machine in one line.
func (m Machine) String() string {
	parts := []string{fmt.Sprintf("%d x %s", m.Cores, m.CPU)}
	if m.MemoryBytes > 0 {
		parts = append(parts, fmt.Sprintf("%.1f GiB", float64(m.MemoryBytes)/(1<<30)))
	}
	kernel := strings.TrimSpace("kernel " + m.Kernel)
	for _, part := range []string{m.OS, kernel, m.GoVersion} {
		if part != "" && part != "kernel" {
			parts = append(parts, part)
		}
	}
	if m.Writer != "" {
		parts = append(parts, "writer "+m.Writer)
	}
	return strings.Join(parts, ", ")
}
