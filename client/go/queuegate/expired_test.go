package queuegate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// TestExpiredCertificate asks a server whose certificate the client trusts, but that has expired.
func TestExpiredCertificate(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().AddDate(0, 0, -2),
		NotAfter:     time.Now().AddDate(0, 0, -1),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	authorities := filepath.Join(t.TempDir(), "ca.pem")
	content := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	if err := os.WriteFile(authorities, content, 0o600); err != nil {
		t.Fatal(err)
	}
	server := startFake(t, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}},
	})))
	client := connect(t, Config{Address: server.address, TLS: &TLS{CAFile: authorities}, Timeout: time.Minute})
	_, err = client.Check(t.Context(), Check{User: "alice", Queue: "root"})
	expectError(t, err, ErrServerUnavailable, "has expired, or is not valid yet: renew it on the server")
}
