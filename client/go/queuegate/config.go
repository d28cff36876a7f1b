package queuegate

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

const (
	defaultTimeout = time.Second
	maxAttempts    = 5 // gRPC silently caps larger numbers
	minBackoff     = 10 * time.Millisecond
	maxBackoff     = time.Minute
	// Enough for a full batch with long queue paths in its results, or for a very large policy.
	maxReceiveBytes = 64 << 20
	// Messages that exceed this buffer are never retried.
	retryBufferBytes = 5 << 20
)

// Config configures a client. The zero value of each field is its default.
type Config struct {
	// Address is HOST:PORT, [IPV6]:PORT or unix:/PATH. Defaults to the environment variable
	// QUEUEGATE_ADDRESS, or else to 127.0.0.1:50051.
	Address string
	// Timeout is the time limit, including retries and additional pages, of calls whose context has no
	// deadline. Defaults to 1 s. Reload, Validate and each page of ListUsers always have 30 s, and
	// an invalidation with Wait has 15 s.
	Timeout time.Duration
	// TLS configures TLS. By default, the settings come from the environment variables
	// QUEUEGATE_CA_FILE, QUEUEGATE_CERTIFICATE_FILE, QUEUEGATE_KEY_FILE and QUEUEGATE_SERVER_NAME,
	// except for Unix sockets; if none is set, connections are plaintext.
	TLS *TLS
	// TokenFile is the regular file with the bearer token, reread when it changes. While it cannot
	// be read, calls send the last token, and slog's default logger logs a warning. Defaults to the
	// environment variable QUEUEGATE_TOKEN_FILE. A token is sent only over TLS or within this
	// machine.
	TokenFile string
	// Retry configures retries.
	Retry Retry
	// DialOptions are gRPC options, such as interceptors and stats handlers. They take precedence
	// over the client's own options.
	DialOptions []grpc.DialOption
}

// TLS configures TLS connections. The files are in PEM format, and are read once by [New].
type TLS struct {
	// CAFile contains the trusted certificate authorities. Defaults to the system's.
	CAFile string
	// CertificateFile contains the client certificate and its chain, for a server that requires mTLS.
	CertificateFile string
	// KeyFile contains the private key of the client certificate.
	KeyFile string
	// ServerName is the name in the server's certificate, if it differs from the address.
	ServerName string
}

// Retry is the retry policy for calls that fail with UNAVAILABLE, or with CANCELLED because the
// server is shutting down. All calls are idempotent, so retries are safe.
//
// Retries use exponential backoff with jitter, within the time limit of the call, and respect a delay
// requested by the server (grpc-retry-pushback-ms). While most calls fail, retries pause.
type Retry struct {
	// Attempts is the maximum number of attempts, from 1 (no retries) to 5. Defaults to 4.
	Attempts int
	// InitialBackoff is the time before the second attempt, doubled for each subsequent attempt.
	// Defaults to 50 ms.
	InitialBackoff time.Duration
	// MaxBackoff is the maximum backoff. Defaults to 500 ms.
	MaxBackoff time.Duration
}

// plan is a validated Config.
type plan struct {
	address   address
	timeout   time.Duration
	encrypted bool
	options   []grpc.DialOption
}

func newPlan(config Config) (plan, error) {
	address, err := parseAddress(config.Address)
	if err != nil {
		return plan{}, err
	}
	if config.Timeout < 0 {
		return plan{}, fmt.Errorf("Config.Timeout must not be negative: %v", config.Timeout)
	}
	service, err := config.Retry.serviceConfig()
	if err != nil {
		return plan{}, err
	}
	names := tlsFields
	if config.TLS == nil && !address.unix {
		config.TLS, names = tlsOfEnvironment(), tlsVariables
	}
	transport := insecure.NewCredentials()
	if config.TLS != nil {
		settings, err := config.TLS.load(names)
		if err != nil {
			return plan{}, err
		}
		transport = credentials.NewTLS(settings)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultServiceConfig(service),
		// A service config in DNS would replace the client's.
		grpc.WithDisableServiceConfig(),
		// Ignore HTTP proxies in the environment, since the server is on this machine or network.
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(maxReceiveBytes), grpc.MaxRetryRPCBufferSize(retryBufferBytes),
		),
		// Servers disconnect a client that pings more often than every 5 minutes. Even without
		// pings, the timeout closes connections whose peer's kernel does not acknowledge data.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 5 * time.Minute, Timeout: 5 * time.Second,
		}),
		// Reconnect to a restarted sidecar within 2 seconds. gRPC's default is up to 2 minutes.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second,
			},
			MinConnectTimeout: 20 * time.Second,
		}),
	}
	tokenSetting := "Config.TokenFile"
	if config.TokenFile == "" {
		tokenSetting = "QUEUEGATE_TOKEN_FILE"
		config.TokenFile = os.Getenv(tokenSetting)
	}
	encrypted := config.TLS != nil
	if config.TokenFile != "" {
		if !encrypted && !address.local {
			return plan{}, fmt.Errorf("refusing to send the token to %s unencrypted:"+
				" configure TLS (Config.TLS or QUEUEGATE_CA_FILE)", address.text)
		}
		token, err := newBearerToken(tokenSetting, config.TokenFile, encrypted)
		if err != nil {
			return plan{}, err
		}
		options = append(options, grpc.WithPerRPCCredentials(token))
	}
	options = append(options, config.DialOptions...)
	return plan{address, cmp.Or(config.Timeout, defaultTimeout), encrypted, options}, nil
}

// The names of the settings, for messages.
var (
	tlsFields    = TLS{"TLS.CAFile", "TLS.CertificateFile", "TLS.KeyFile", "TLS.ServerName"}
	tlsVariables = TLS{
		"QUEUEGATE_CA_FILE", "QUEUEGATE_CERTIFICATE_FILE", "QUEUEGATE_KEY_FILE", "QUEUEGATE_SERVER_NAME",
	}
)

// tlsOfEnvironment returns the TLS settings in the environment, or nil.
func tlsOfEnvironment() *TLS {
	settings := TLS{
		CAFile:          os.Getenv(tlsVariables.CAFile),
		CertificateFile: os.Getenv(tlsVariables.CertificateFile),
		KeyFile:         os.Getenv(tlsVariables.KeyFile),
		ServerName:      os.Getenv(tlsVariables.ServerName),
	}
	if settings == (TLS{}) {
		return nil
	}
	return &settings
}

func (t *TLS) load(names TLS) (*tls.Config, error) {
	if (t.CertificateFile == "") != (t.KeyFile == "") {
		return nil, fmt.Errorf("%s and %s must be given together", names.CertificateFile, names.KeyFile)
	}
	var contents [3][]byte
	for i, file := range [...]struct{ name, path string }{
		{names.CAFile, t.CAFile}, {names.CertificateFile, t.CertificateFile}, {names.KeyFile, t.KeyFile},
	} {
		var err error
		if file.path == "" {
			continue
		}
		if contents[i], err = os.ReadFile(file.path); err != nil {
			return nil, fmt.Errorf("%s: %w", file.name, err)
		}
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(contents[0]) {
			return nil, fmt.Errorf("%s %q does not contain a PEM certificate", names.CAFile, t.CAFile)
		}
	}
	if t.CertificateFile != "" {
		pair, err := tls.X509KeyPair(contents[1], contents[2])
		if err != nil {
			return nil, fmt.Errorf("%s %q and %s %q must be a PEM certificate and its private key without a"+
				" passphrase: %w", names.CertificateFile, t.CertificateFile, names.KeyFile, t.KeyFile, err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	return settings, nil
}

// serviceConfig returns gRPC's service config, the only means to configure retries.
func (r Retry) serviceConfig() (string, error) {
	r.Attempts = cmp.Or(r.Attempts, 4)
	r.InitialBackoff = cmp.Or(r.InitialBackoff, 50*time.Millisecond)
	r.MaxBackoff = cmp.Or(r.MaxBackoff, max(500*time.Millisecond, r.InitialBackoff))
	if r.Attempts < 1 || r.Attempts > maxAttempts {
		return "", fmt.Errorf("Retry.Attempts must be 1 to %d, not %d", maxAttempts, r.Attempts)
	}
	if r.InitialBackoff < minBackoff || r.MaxBackoff < r.InitialBackoff || r.MaxBackoff > maxBackoff {
		return "", fmt.Errorf("Retry.InitialBackoff and Retry.MaxBackoff must be %v to %v,"+
			" and InitialBackoff must not exceed MaxBackoff", minBackoff, maxBackoff)
	}
	if r.Attempts == 1 {
		// gRPC still resends a call that the server never processed, for example after it closed an
		// old connection.
		return "{}", nil
	}
	// A call to a server that is shutting down fails with CANCELLED. A failed attempt costs a token,
	// and a success returns a tenth. Retries pause while less than half of the tokens remain.
	return fmt.Sprintf(`{
		"methodConfig": [{
			"name": [{"service": %q}, {"service": %q}, {"service": %q}],
			"retryPolicy": {
				"maxAttempts": %d,
				"initialBackoff": "%.3fs",
				"maxBackoff": "%.3fs",
				"backoffMultiplier": 2,
				"retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"]
			}
		}],
		"retryThrottling": {"maxTokens": 100, "tokenRatio": 0.1}
	}`,
		queuegatev1.AccessService_ServiceDesc.ServiceName,
		queuegatev1.UserGroupService_ServiceDesc.ServiceName,
		queuegatev1.PolicyService_ServiceDesc.ServiceName,
		r.Attempts, r.InitialBackoff.Seconds(), r.MaxBackoff.Seconds()), nil
}
