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
	maxAttempts    = 5 // gRPC silently reduces larger numbers to this one
	minBackoff     = 10 * time.Millisecond
	maxBackoff     = time.Minute
	// Enough for a full batch whose results name long queues, or for a very large policy.
	maxReceiveBytes = 64 << 20
	// A message that does not fit into this buffer is never retried.
	retryBufferBytes = 5 << 20
)

// Config configures a client. The zero value is the default of each field.
type Config struct {
	// Address is HOST:PORT, [IPV6]:PORT or unix:/PATH. Empty: the environment variable
	// QUEUEGATE_ADDRESS, or else 127.0.0.1:50051.
	Address string
	// Timeout is the time limit of calls whose context has no deadline. It includes retries and
	// further pages. Zero: 1 s. Reload, Validate and each page of ListUsers always have 30 s, and
	// an invalidation with Wait has 15 s.
	Timeout time.Duration
	// TLS has the TLS settings. Nil: from the variables QUEUEGATE_CA_FILE,
	// QUEUEGATE_CERTIFICATE_FILE, QUEUEGATE_KEY_FILE and QUEUEGATE_SERVER_NAME, or plaintext if
	// none is set. The variables do not apply to Unix sockets.
	TLS *TLS
	// TokenFile is the regular file with the bearer token, which is reread when it changes. While it
	// cannot be read, calls send the last token, and slog's default logger warns.
	// Empty: the variable QUEUEGATE_TOKEN_FILE. A token is only sent over TLS or within this
	// machine.
	TokenFile string
	// Retry configures retries.
	Retry Retry
	// DialOptions are for interceptors, stats handlers and anything else that gRPC offers. They take
	// precedence over the client's own options.
	DialOptions []grpc.DialOption
}

// TLS has the files of a connection with TLS, in PEM format. They are read once, by [New].
type TLS struct {
	// CAFile has the certificate authorities to trust. Empty: the system's.
	CAFile string
	// CertificateFile has the client certificate and its chain, for a server that requires one.
	CertificateFile string
	// KeyFile has the private key of the client certificate.
	KeyFile string
	// ServerName is the name to expect in the certificate of the server, if it differs from the
	// address.
	ServerName string
}

// Retry configures retries of calls that fail with UNAVAILABLE, or with CANCELLED from a server that is
// shutting down, within their time limit. All calls are idempotent, so retrying them is safe.
//
// Each wait is the backoff with jitter. A delay that the server requests
// (grpc-retry-pushback-ms) is respected. While most calls fail, none is retried.
type Retry struct {
	// Attempts is the maximum number of attempts, 1 (no retries) to 5. Zero: 4.
	Attempts int
	// InitialBackoff is the wait before the second attempt; it doubles with each further attempt.
	// Zero: 50 ms.
	InitialBackoff time.Duration
	// MaxBackoff is the longest wait. Zero: 500 ms.
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
		// A service config in DNS would replace that of the client.
		grpc.WithDisableServiceConfig(),
		// Ignore HTTP proxies of the environment: the server is on this machine or network.
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(maxReceiveBytes), grpc.MaxRetryRPCBufferSize(retryBufferBytes),
		),
		// Servers drop a client that pings more often than every 5 minutes. The timeout also
		// applies without pings: the peer's kernel must acknowledge data within it, so a
		// connection to a dead machine is closed.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 5 * time.Minute, Timeout: 5 * time.Second,
		}),
		// Reconnect to a restarted sidecar within 2 seconds; by default gRPC waits up to 2 minutes.
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

// tlsOfEnvironment returns the settings of the environment; nil if it has none.
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

// serviceConfig returns the service config of gRPC, which has no other way to set retries.
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
		// gRPC still resends a call that the server never processed, for example because it has
		// just closed an old connection.
		return "{}", nil
	}
	// CANCELLED is how a call ends that reaches a server while it shuts down. Each failed attempt
	// costs a token and each success returns a tenth; retries pause while less than half of the
	// tokens are left.
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
