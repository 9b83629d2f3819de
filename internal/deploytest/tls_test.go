package deploytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// serverName is the name in the snippets and in the certificate.
const serverName = "relay.example"

// writeCertificate makes a key and a certificate signed by it: cert.pem and
// key.pem for nginx, both.pem for HAProxy.
func writeCertificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: serverName},
		DNSNames:     []string{serverName},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IsCA:         true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
	for name, b := range map[string][]byte{
		"cert.pem": cert, "key.pem": secret, "both.pem": slices.Concat(cert, secret),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// clientTLS trusts the proxy's certificate and nothing else.
func (p *proxy) clientTLS(t *testing.T) *tls.Config {
	t.Helper()
	cert, err := os.ReadFile(filepath.Join(p.dir, "cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return &tls.Config{RootCAs: pool, ServerName: serverName}
}

// tunnel is a plain TCP port whose connections go to the proxy over TLS, from
// the given loopback address. It passes on bytes and ends, and holds little: a
// client that reads nothing stops the proxy soon.
func (p *proxy) tunnel(t *testing.T, from string) (addr string) {
	t.Helper()
	config := p.clientTLS(t)
	dialer := &net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			plain, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { pass(plain.(*net.TCPConn), dialer, p.addr, config) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		all.Wait() // clients and proxy have ended before
	})
	return ln.Addr().String()
}

// pass copies both ways. The end of one side ends the other.
func pass(plain *net.TCPConn, dialer *net.Dialer, to string, config *tls.Config) {
	defer func() { _ = plain.Close() }()
	_ = plain.SetWriteBuffer(256 << 10)
	secure, err := tls.DialWithDialer(dialer, "tcp", to, config)
	if err != nil {
		return
	}
	defer func() { _ = secure.Close() }()
	_ = secure.NetConn().(*net.TCPConn).SetReadBuffer(256 << 10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(secure, plain)
		_ = secure.Close() // a client that ends sends no more and reads no more
	}()
	_, _ = io.Copy(plain, secure)
	_ = plain.Close()
	_ = secure.Close()
	<-done
}
