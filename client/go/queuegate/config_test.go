package queuegate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
)

func TestAddresses(t *testing.T) {
	for text, want := range map[string]address{
		"":                    {"127.0.0.1:50051", "dns:///127.0.0.1:50051", false, true},
		"127.0.0.1:50051":     {"127.0.0.1:50051", "dns:///127.0.0.1:50051", false, true},
		"127.9.9.9:1":         {"127.9.9.9:1", "dns:///127.9.9.9:1", false, true},
		"LOCALHOST:007":       {"LOCALHOST:007", "dns:///LOCALHOST:7", false, true},
		"queuegate.test:443":  {"queuegate.test:443", "dns:///queuegate.test:443", false, false},
		"localhost.evil:443":  {"localhost.evil:443", "dns:///localhost.evil:443", false, false},
		"10.0.0.1:65535":      {"10.0.0.1:65535", "dns:///10.0.0.1:65535", false, false},
		"[::1]:50051":         {"[::1]:50051", "dns:///%5B::1%5D:50051", false, true},
		"[fe80::1%eth0]:5":    {"[fe80::1%eth0]:5", "dns:///%5Bfe80::1%25eth0%5D:5", false, false},
		"dns:///localhost:5":  {"dns:///localhost:5", "dns:///localhost:5", false, true},
		"dns:///10.0.0.1:5":   {"dns:///10.0.0.1:5", "dns:///10.0.0.1:5", false, false},
		"unix:/run/q.sock":    {"unix:/run/q.sock", "unix:///run/q.sock", true, true},
		"unix:///run/q.sock":  {"unix:///run/q.sock", "unix:///run/q.sock", true, true},
		"unix:/run/a b%41?#é": {"unix:/run/a b%41?#é", "unix:///run/a%20b%2541%3F%23%C3%A9", true, true},
	} {
		if want.text == "" {
			want.text = text
		}
		if parsed, err := parseAddress(text); parsed != want || err != nil {
			t.Errorf("%q: %+v, %v", text, parsed, err)
		}
	}
	for text, fault := range map[string]string{
		"localhost":                           "not a host and a port",
		":50051":                              "not a host and a port",
		"localhost:":                          "the port must be a number",
		"localhost:0":                         "the port must be a number",
		"localhost:65536":                     "the port must be a number",
		"localhost:http":                      "the port must be a number",
		"localhost:+1":                        "the port must be a number",
		"http://localhost:1":                  "not a host name",
		"dns://8.8.8.8/localhost:1":           "not a host name",
		"::1:50051":                           "not a host name",
		"a b:1":                               "not a host name",
		"[127.0.0.1]:1":                       "not an IPv6 address",
		"[::g]:1":                             "not an IPv6 address",
		"unix:run/q.sock":                     "must be absolute",
		"unix:" + strings.Repeat("/long", 22): "must not exceed 107 bytes",
		"unix:/a\x00b":                        "without NUL",
	} {
		_, err := New(Config{Address: text})
		if err == nil || !strings.HasPrefix(err.Error(), "queuegate: Config.Address ") ||
			!strings.Contains(err.Error(), fault) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("QUEUEGATE_ADDRESS", "unix:/run/q.sock")
	t.Setenv("QUEUEGATE_SERVER_NAME", "queuegate.test")
	for given, encrypted := range map[string]bool{"": false, "127.0.0.1:1": true} {
		plan, err := newPlan(Config{Address: given})
		if err != nil || plan.encrypted != encrypted || plan.timeout != time.Second {
			t.Errorf("%q: %+v, %v", given, plan, err)
		}
	}
	t.Setenv("QUEUEGATE_KEY_FILE", "key.pem")
	_, err := New(Config{Address: "127.0.0.1:1"})
	if err == nil || !strings.Contains(err.Error(), "QUEUEGATE_CERTIFICATE_FILE and QUEUEGATE_KEY_FILE") {
		t.Error(err)
	}
	t.Setenv("QUEUEGATE_ADDRESS", "nowhere")
	if _, err := New(Config{}); err == nil || !strings.Contains(err.Error(), `QUEUEGATE_ADDRESS "nowhere"`) {
		t.Error(err)
	}
}

func TestFaultsOfTheConfig(t *testing.T) {
	text := written(t, "no certificate")
	missing := filepath.Join(t.TempDir(), "missing")
	for fault, config := range map[string]Config{
		"Config.Timeout must not be negative":                 {Timeout: -1},
		"Retry.Attempts must be 1 to 5, not 6":                {Retry: Retry{Attempts: 6}},
		"Retry.Attempts must be 1 to 5, not -1":               {Retry: Retry{Attempts: -1}},
		"Retry.InitialBackoff and Retry.MaxBackoff must be":   {Retry: Retry{InitialBackoff: 1}},
		"InitialBackoff must not exceed MaxBackoff":           {Retry: Retry{MaxBackoff: time.Millisecond}},
		"must be 10ms to 1m0s":                                {Retry: Retry{MaxBackoff: time.Hour}},
		"TLS.CAFile: open":                                    {TLS: &TLS{CAFile: missing}},
		"does not contain a PEM certificate":                  {TLS: &TLS{CAFile: text}},
		"must be given together":                              {TLS: &TLS{CertificateFile: text}},
		"must be a PEM certificate and its private key":       {TLS: &TLS{CertificateFile: text, KeyFile: text}},
		"Config.TokenFile: open":                              {TokenFile: missing},
		"must contain exactly one ASCII token":                {TokenFile: text},
		"must be a regular file":                              {TokenFile: t.TempDir()},
		"refusing to send the token to 10.0.0.1:1 unencrypte": {Address: "10.0.0.1:1", TokenFile: text},
	} {
		_, err := New(config)
		if err == nil || !strings.Contains(err.Error(), fault) || strings.Contains(err.Error(), "no certificate") ||
			!strings.HasPrefix(err.Error(), "queuegate: ") {
			t.Errorf("got %v, want %s", err, fault)
		}
	}
}

// The message about a file contains the setting and the path.
func TestAFileIsNamedByItsSetting(t *testing.T) {
	missing, text := filepath.Join(t.TempDir(), "missing"), written(t, "two words")
	for variable, field := range map[string]string{
		"QUEUEGATE_CA_FILE":          "TLS.CAFile",
		"QUEUEGATE_CERTIFICATE_FILE": "TLS.CertificateFile",
		"QUEUEGATE_KEY_FILE":         "TLS.KeyFile",
		"QUEUEGATE_TOKEN_FILE":       "Config.TokenFile",
	} {
		t.Run(variable, func(t *testing.T) {
			config := Config{TLS: &TLS{CertificateFile: text, KeyFile: text}}
			switch field {
			case "TLS.CAFile":
				config.TLS.CAFile = missing
			case "TLS.CertificateFile":
				config.TLS.CertificateFile = missing
			case "TLS.KeyFile":
				config.TLS.KeyFile = missing
			case "Config.TokenFile":
				config = Config{TokenFile: missing}
			}
			_, err := New(config)
			expectError(t, err, os.ErrNotExist, field+": open "+missing)
			if field != "Config.TokenFile" {
				t.Setenv("QUEUEGATE_CERTIFICATE_FILE", text)
				t.Setenv("QUEUEGATE_KEY_FILE", text)
			}
			t.Setenv(variable, missing)
			_, err = New(Config{})
			expectError(t, err, os.ErrNotExist, variable+": open "+missing)
			t.Setenv(variable, text)
			if _, err = New(Config{}); err == nil || !strings.Contains(err.Error(), variable+" \""+text) {
				t.Error(err)
			}
		})
	}
}

func TestRetriesOfTheServiceConfig(t *testing.T) {
	text, err := Retry{InitialBackoff: time.Second}.serviceConfig()
	if err != nil || !json.Valid([]byte(text)) {
		t.Fatal(text, err)
	}
	for _, part := range []string{`"initialBackoff": "1.000s"`, `"maxBackoff": "1.000s"`, `"maxAttempts": 4`} {
		if !strings.Contains(text, part) {
			t.Errorf("%s: not %s", text, part)
		}
	}
}

func TestATokenIsReadAgain(t *testing.T) {
	server := startFake(t)
	file := written(t, " first\n")
	t.Setenv("QUEUEGATE_TOKEN_FILE", file)
	client := server.connect(t, Config{})
	if err := calls["Check"](t.Context(), client); err != nil {
		t.Fatal(err)
	}
	token, err := newBearerToken("Config.TokenFile", file, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range []struct{ content, header string }{
		{"second", "Bearer second"}, {"two words", "Bearer second"}, {"", "Bearer second"},
		{strings.Repeat("x", maxTokenBytes+1), "Bearer second"}, {"third", "Bearer third"},
	} {
		if err := os.WriteFile(file, []byte(each.content), 0o600); err != nil {
			t.Fatal(err)
		}
		before := token.header.Load()
		if sent, err := token.GetRequestMetadata(t.Context()); sent["authorization"] != before || err != nil {
			t.Errorf("%v, %v: the file was read again within a second", sent, err)
		}
		token.nextCheck = time.Time{}
		if sent, err := token.GetRequestMetadata(t.Context()); sent["authorization"] != each.header || err != nil {
			t.Errorf("got %v, %v, want %q", sent, err, each.header)
		}
	}
	if sent := server.authorizations(); len(sent) != 1 || sent[0] != "Bearer first" {
		t.Error(sent)
	}
}

// captureLog captures the log until the end of the test.
func captureLog(t *testing.T) *bytes.Buffer {
	t.Helper()
	previous, logged := slog.Default(), &bytes.Buffer{}
	slog.SetDefault(slog.New(slog.NewTextHandler(logged, nil)))
	t.Cleanup(func() { slog.SetDefault(previous) })
	return logged
}

func TestAnUnreadableTokenFileIsLoggedOnce(t *testing.T) {
	file := written(t, "t0ken")
	token, err := newBearerToken("Config.TokenFile", file, false)
	if err != nil {
		t.Fatal(err)
	}
	logged := captureLog(t)
	for _, each := range []struct {
		change func() error
		count  int
	}{
		{func() error { return os.Remove(file) }, 1},
		{func() error { return nil }, 1},
		{func() error { return syscall.Mkfifo(file, 0o600) }, 2}, // without a writer
		{func() error { return os.Remove(file) }, 3},
		{func() error { return os.WriteFile(file, []byte("t0ken"), 0o600) }, 3},
		{func() error { return os.Remove(file) }, 4},
	} {
		if err := each.change(); err != nil {
			t.Fatal(err)
		}
		token.nextCheck = time.Time{}
		if sent, err := token.GetRequestMetadata(t.Context()); sent["authorization"] != "Bearer t0ken" || err != nil {
			t.Error(sent, err)
		}
		if count := strings.Count(logged.String(), "the token file cannot be read"); count != each.count {
			t.Errorf("logged %d times, want %d:\n%s", count, each.count, logged)
		}
	}
	if text := logged.String(); !strings.Contains(text, "must be a regular file") || strings.Contains(text, "t0ken") {
		t.Error(text)
	}
}

func TestUnixSockets(t *testing.T) {
	for _, name := range []string{"q.sock", "a b%41?#é,.sock"} {
		file := filepath.Join(t.TempDir(), name)
		listener, err := net.Listen("unix", file)
		if err != nil {
			t.Fatal(err)
		}
		startFakeAt(t, listener)
		// TLS settings in the environment do not apply to this address, where a token needs no TLS.
		t.Setenv("QUEUEGATE_SERVER_NAME", "queuegate.test")
		client := connect(t, Config{Address: "unix:" + file, TokenFile: written(t, "t0ken"), Timeout: time.Minute})
		if err := calls["Check"](t.Context(), client); err != nil {
			t.Error(err)
		}
	}
}

func TestTLS(t *testing.T) {
	folder := inRepository(t, "tests/contract/tls")
	file := func(name string) string { return filepath.Join(folder, name) }
	pair, err := tls.LoadX509KeyPair(file("server.pem"), file("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	pem, err := os.ReadFile(file("ca.pem"))
	if err != nil || !clients.AppendCertsFromPEM(pem) {
		t.Fatal(err)
	}
	settings := &tls.Config{Certificates: []tls.Certificate{pair}}
	encrypted := startFake(t, grpc.Creds(credentials.NewTLS(settings)))
	mutual := startFake(t, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: settings.Certificates, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	plain := startFake(t)
	trusted := TLS{CAFile: file("ca.pem")}
	known := TLS{file("ca.pem"), file("client.pem"), file("client.key"), ""}
	port := encrypted.address[strings.LastIndexByte(encrypted.address, ':'):]
	for name, each := range map[string]struct {
		address string
		tls     *TLS
		message string
	}{
		"TLS":               {encrypted.address, &trusted, ""},
		"by name":           {"localhost" + port, &trusted, ""},
		"other name":        {encrypted.address, &TLS{CAFile: file("ca.pem"), ServerName: "queuegate.test"}, ""},
		"mutual TLS":        {mutual.address, &known, ""},
		"no certificate":    {mutual.address, &trusted, "requires a client certificate, set TLS.CertificateFile"},
		"other authority":   {encrypted.address, &TLS{CAFile: file("other-ca.pem")}, "is not trusted: set"},
		"system's":          {encrypted.address, &TLS{}, "is not trusted: set"},
		"wrong name":        {encrypted.address, &TLS{CAFile: file("ca.pem"), ServerName: "a.test"}, "is for a different name"},
		"plaintext server":  {plain.address, &trusted, "does not speak TLS"},
		"plaintext client":  {encrypted.address, nil, "if it requires TLS, set Config.TLS"},
		"plaintext, mutual": {mutual.address, nil, "if it requires TLS, set Config.TLS"},
		"nobody":            {"127.0.0.1:1", &trusted, "no server at 127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			client := connect(t, Config{Address: each.address, TLS: each.tls, Timeout: time.Minute})
			decision, err := client.Check(t.Context(), Check{User: "alice", Queue: "root"})
			if each.message == "" {
				if !decision.Allowed || err != nil {
					t.Error(decision, err)
				}
				return
			}
			expectError(t, err, ErrServerUnavailable, each.message)
			expectError(t, err, ErrServerUnavailable, each.address)
		})
	}
	t.Setenv("QUEUEGATE_CA_FILE", known.CAFile)
	t.Setenv("QUEUEGATE_CERTIFICATE_FILE", known.CertificateFile)
	t.Setenv("QUEUEGATE_KEY_FILE", known.KeyFile)
	client := mutual.connect(t, Config{TokenFile: written(t, "t0ken")})
	if err := calls["Check"](t.Context(), client); err != nil || mutual.authorizations()[1] != "Bearer t0ken" {
		t.Error(err, mutual.authorizations())
	}
}

func TestNotAQueuegateServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other := grpc.NewServer()
	go other.Serve(listener)
	t.Cleanup(other.Stop)
	client := connect(t, Config{Address: listener.Addr().String(), Timeout: time.Minute})
	_, err = client.Check(t.Context(), Check{User: "alice", Queue: "root"})
	expectError(t, err, ErrServer, "is it a queuegate server?")
	var failed *Error
	if errors.As(err, &failed); failed.Code != codes.Unimplemented {
		t.Error(failed.Code)
	}
}

func TestNotAGRPCServer(t *testing.T) {
	folder := inRepository(t, "tests/contract/tls")
	file := func(name string) string { return filepath.Join(folder, name) }
	pair, err := tls.LoadX509KeyPair(file("server.pem"), file("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	encrypted := httptest.NewUnstartedServer(http.NotFoundHandler())
	encrypted.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	encrypted.StartTLS()
	t.Cleanup(encrypted.Close)
	for server, settings := range map[*httptest.Server]*TLS{plain: nil, encrypted: {CAFile: file("ca.pem")}} {
		address := server.Listener.Addr().String()
		client := connect(t, Config{Address: address, TLS: settings, Timeout: time.Minute})
		_, err := client.Check(t.Context(), Check{User: "alice", Queue: "root"})
		expectError(t, err, ErrServerUnavailable, address+" is not a gRPC server: use an address")
	}
}

func TestAnIPv6Address(t *testing.T) {
	listener, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Log("this machine has no IPv6:", err)
		return
	}
	if err := calls["Check"](t.Context(), startFakeAt(t, listener).connect(t, Config{})); err != nil {
		t.Error(err)
	}
}

// A server that has responded closes connections for reasons other than TLS settings.
func TestAConnectionThatCloses(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		fresh := unavailable("error reading from server: EOF", "host:1", encrypted, false)
		if !strings.Contains(fresh, "if it requires") {
			t.Error(fresh)
		}
		known := unavailable("error reading from server: EOF", "host:1", encrypted, true)
		if known != "host:1 closed the connection (error reading from server: EOF)" {
			t.Error(known)
		}
	}
}
