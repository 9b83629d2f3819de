package doctor

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// passOn is what a location needs for streams and WebSockets, as
// docs/deploy/nginx.conf has it.
const passOn = `
	proxy_http_version 1.1;
	proxy_set_header Upgrade $http_upgrade;
	proxy_set_header Connection $upgrade_or_nothing;
	proxy_buffering off;
	proxy_read_timeout 120s;
`

// startNginx runs nginx in front of a relay until the test ends, on a Unix
// socket, with these directives in its location.
func startNginx(t *testing.T, upstream, location string) string {
	t.Helper()
	binary, err := exec.LookPath("nginx")
	if err != nil {
		binary, err = exec.LookPath("/usr/sbin/nginx")
	}
	if err != nil {
		t.Skip("nginx is not installed")
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "n.sock")
	var b strings.Builder
	if os.Geteuid() == 0 { // or its workers may not enter the test's directory
		b.WriteString("user root;\n")
	}
	b.WriteString("daemon off;\nworker_processes 1;\nerror_log stderr crit;\npid " + dir + "/pid;\n")
	b.WriteString("events { worker_connections 256; }\nhttp {\naccess_log off;\n")
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		b.WriteString(kind + "_temp_path " + filepath.Join(dir, kind) + ";\n")
	}
	b.WriteString("map $http_upgrade $upgrade_or_nothing { default upgrade; '' ''; }\n")
	b.WriteString("server {\nlisten unix:" + socket + ";\nlocation / {\nproxy_pass " + upstream + ";\n" + location + "}\n}\n}\n")
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-e", "stderr", "-p", dir, "-c", path)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			t.Error("nginx does not end at SIGTERM")
		}
	})
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		c, err := net.Dial("unix", socket)
		if err == nil {
			_ = c.Close()
			return "unix:" + socket
		}
		if time.Since(begin) > patience {
			t.Fatalf("nginx accepts no connection: %v", err)
		}
	}
}

// The faults that people make with nginx, by the real one.
func TestNginx(t *testing.T) {
	t.Parallel()
	relay := startRelay(t, "AEP_TOKEN="+testToken)
	for _, c := range []struct {
		name, upstream, location string
		wait                     bool // for the heartbeat
		check                    string
		v                        Verdict
		texts                    []string
		also                     []string // checks that suffer too
	}{
		{"well", relay, passOn, false, "stream", OK, []string{"behind a proxy: Server: nginx"}, nil},
		{"buffering left on is turned off by the relay", relay, strings.Replace(passOn, "proxy_buffering off;", "", 1), false, "stream", OK, nil, nil},
		{
			// With HTTP/1.0 to the relay, which is the default: chunks are passed on.
			"buffering, and the relay's word ignored", relay, "proxy_ignore_headers X-Accel-Buffering;", false,
			"stream", Fail,
			[]string{"not even the head", "proxy_buffering off"},
			[]string{"websocket", "publish"},
		},
		{
			"gzip and buffering", relay, strings.Replace(passOn, "proxy_buffering off;", "proxy_ignore_headers X-Accel-Buffering;", 1) +
				"gzip on; gzip_types text/event-stream; gzip_proxied any; gzip_min_length 0;", false,
			"compression", Fail,
			[]string{"does not come", "gzip off"},
			nil,
		},
		{
			"gzip", relay, passOn + "gzip on; gzip_types text/event-stream; gzip_proxied any; gzip_min_length 0;", false,
			"compression", Fail,
			[]string{"compressed with gzip", "gzip off"},
			nil,
		},
		{
			"no upgrade", relay, "proxy_buffering off;", false, "websocket", Fail,
			[]string{"404", "proxy_http_version 1.1"},
			[]string{"publish"},
		},
		{"a short timeout", relay, strings.Replace(passOn, "120s", "8s", 1), true, "heartbeat", Fail, []string{" after ", "on the stream", "proxy_read_timeout"}, nil},
		{"no relay behind", "http://127.0.0.1:1", passOn, false, "health", Fail, []string{"502", "does not reach the relay"}, nil},
		{"no token comes through", relay, passOn + `proxy_set_header Authorization "";`, false, "token", Fail, []string{"pass Authorization on"}, nil},
		{"bodies of 100 bytes", relay, passOn + "client_max_body_size 100;", false, "publish", Fail, []string{"413", "client_max_body_size"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := Options{Publish: true}
			if strings.Contains(c.name, "buffering") {
				o.Timeout = shortTimeout // nothing comes
			}
			if c.wait {
				o.heartbeat, o.slack = heartbeatInterval, patience
			}
			found := examine(t, startNginx(t, c.upstream, c.location), testToken, o)
			want(t, found, c.check, c.v, c.texts...)
			onlyThese(t, found, append(c.also, c.check)...)
		})
	}
}
