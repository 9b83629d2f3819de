package deploytest

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/testrelay"
)

// patience is how long a test waits for what must come. It is only used up
// when a test fails.
const patience = time.Minute

// proxyKind is one of the proxies that docs/deploy has a snippet for.
type proxyKind struct {
	name    string
	snippet string
	// plain are texts to exchange so that the proxy speaks no TLS.
	plain []string
	// configure returns the configuration file and the arguments that run it in
	// the foreground.
	configure func(t *testing.T, p *proxy, snippet string) (config string, args []string)
}

var proxyKinds = []proxyKind{
	{"nginx", "nginx.conf", []string{"443 ssl http2;", "443 ;"}, configureNginx},
	{"haproxy", "haproxy.cfg", []string{"bind :443 ssl ", "bind :443 # ssl "}, configureHAProxy},
}

// proxy is one running proxy.
type proxy struct {
	kind    proxyKind
	dir     string
	addr    string // of its port
	backend string
	output  lockedBuffer
}

// eachProxy runs f with every proxy that is installed.
func eachProxy(t *testing.T, f func(t *testing.T, kind proxyKind)) {
	t.Helper()
	t.Parallel()
	for _, kind := range proxyKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			f(t, kind)
		})
	}
}

// startProxy runs the snippet of kind in front of backend ("host:port") until
// the test ends. Pairs of texts are exchanged in the snippet besides.
func startProxy(t *testing.T, kind proxyKind, backend string, pairs ...string) *proxy {
	t.Helper()
	binary, err := exec.LookPath(kind.name)
	if err != nil {
		binary, err = exec.LookPath("/usr/sbin/" + kind.name)
	}
	if err != nil {
		t.Skipf("%s is not installed", kind.name)
	}
	p := &proxy{kind: kind, dir: t.TempDir(), addr: "127.0.0.1:" + testrelay.FixedPort(t), backend: backend}
	writeCertificate(t, p.dir)
	snippet := exchange(t, readDeploy(t, kind.snippet), pairs...)
	config, args := kind.configure(t, p, snippet)
	path := filepath.Join(p.dir, kind.snippet)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, append(args, path)...)
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() { p.stop(t, cmd.Process, exited) })
	p.awaitReady(t, exited)
	return p
}

// stop ends the proxy without waiting for its connections.
func (p *proxy) stop(t *testing.T, process *os.Process, exited <-chan error) {
	_ = process.Signal(syscall.SIGTERM)
	select {
	case <-exited:
	case <-time.After(patience):
		_ = process.Kill()
		t.Errorf("%s does not end at SIGTERM", p.kind.name)
	}
	if t.Failed() {
		t.Logf("%s wrote:\n%.4000s", p.kind.name, p.output.String())
	}
}

// awaitReady waits until the proxy accepts.
func (p *proxy) awaitReady(t *testing.T, exited chan error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for time.Now().Before(deadline) {
		c, err := net.Dial("tcp", p.addr)
		if err == nil {
			_ = c.Close()
			return
		}
		select {
		case err := <-exited:
			exited <- err
			t.Fatalf("%s ended: %v\n%.4000s", p.kind.name, err, p.output.String())
		case <-tick.C:
		}
	}
	t.Fatalf("%s accepts no connection:\n%.4000s", p.kind.name, p.output.String())
}

// configureNginx includes the snippet in a main configuration.
func configureNginx(t *testing.T, p *proxy, snippet string) (string, []string) {
	snippet = exchange(t, snippet,
		"server 127.0.0.1:8787;", "server "+p.backend+";",
		"    listen [::]:443 ", "    # listen [::]:443 ",
		"listen 443 ", "listen "+p.addr+" ",
		"/etc/ssl/sluice/", p.dir+"/",
		"/var/log/nginx/sluice.log", p.accessLog(),
		"/var/log/nginx/sluice-error.log", p.dir+"/error.log")
	if err := os.WriteFile(filepath.Join(p.dir, "sluice.conf"), []byte(snippet), 0o600); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if os.Geteuid() == 0 { // or its workers may not enter the test's directory
		b.WriteString("user root;\n")
	}
	b.WriteString("daemon off;\nworker_processes 1;\nerror_log stderr warn;\n")
	b.WriteString("pid " + p.dir + "/pid;\nevents { worker_connections 1024; }\nhttp {\n")
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		b.WriteString(kind + "_temp_path " + filepath.Join(p.dir, kind) + ";\n")
	}
	b.WriteString("include " + filepath.Join(p.dir, "sluice.conf") + ";\n}\n")
	return b.String(), []string{"-e", "stderr", "-p", p.dir, "-c"}
}

func configureHAProxy(t *testing.T, p *proxy, snippet string) (string, []string) {
	return exchange(t, snippet,
		"maxconn 50000", "maxconn 1000", // descriptors are scarce in tests
		"log /dev/log local0", "log stdout format raw local0",
		"bind :443 ", "bind "+p.addr+" ",
		"/etc/ssl/sluice/", p.dir+"/",
		"127.0.0.1:8787", p.backend), []string{"-db", "-f"}
}

func (p *proxy) accessLog() string { return filepath.Join(p.dir, "access.log") }

// exchange replaces pairs of texts, each of which must occur.
func exchange(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the snippet does not hold %q any more", pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

// readDeploy reads a file of docs/deploy.
func readDeploy(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// lockedBuffer is a concurrent bytes.Buffer.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// logged returns what the proxy wrote to all its logs.
func (p *proxy) logged(t *testing.T) string {
	t.Helper()
	text := p.output.String()
	for _, name := range []string{p.accessLog(), filepath.Join(p.dir, "error.log")} {
		b, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		text += string(b)
	}
	return text
}
