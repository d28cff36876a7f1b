package queuegate

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	defaultAddress     = "127.0.0.1:50051"
	addressVariable    = "QUEUEGATE_ADDRESS"
	maxSocketPathBytes = 107
	acceptedAddresses  = "use HOST:PORT, [IPV6]:PORT or unix:/PATH"
)

var hostName = regexp.MustCompile(`^[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252}[A-Za-z0-9_.])?$`)

// An address is a validated server address. gRPC accepts nearly any text and fails on first use.
type address struct {
	text   string // as given, for messages
	target string // for gRPC
	unix   bool
	local  bool // whether the server runs on this machine
}

// parseAddress parses an address. If it is empty, the environment variable or the default is used.
func parseAddress(text string) (address, error) {
	name := "Config.Address"
	if text == "" {
		name, text = addressVariable, cmp.Or(os.Getenv(addressVariable), defaultAddress)
	}
	parse := parseNetworkAddress
	if strings.HasPrefix(text, "unix:") {
		parse = parseUnixAddress
	}
	parsed, err := parse(text)
	if err != nil {
		return address{}, fmt.Errorf("%s %q: %w", name, text, err)
	}
	parsed.text = text
	return parsed, nil
}

// parseUnixAddress parses unix:/PATH or unix:///PATH. The path is literal, not percent-encoded.
func parseUnixAddress(text string) (address, error) {
	path := strings.TrimPrefix(strings.TrimPrefix(text, "unix:"), "//")
	switch {
	case !strings.HasPrefix(path, "/"):
		return address{}, fmt.Errorf("the path of a Unix socket must be absolute; %s", acceptedAddresses)
	case len(path) > maxSocketPathBytes:
		return address{}, fmt.Errorf("the path of a Unix socket must not exceed %d bytes", maxSocketPathBytes)
	case strings.ContainsAny(path, "\x00") || !utf8.ValidString(path):
		return address{}, fmt.Errorf("the path of a Unix socket must be UTF-8 without NUL")
	}
	target := url.URL{Scheme: "unix", Path: path}
	return address{target: target.String(), unix: true, local: true}, nil
}

// parseNetworkAddress parses HOST:PORT or [IPV6]:PORT, also with gRPC's own dns:/// before it.
func parseNetworkAddress(text string) (address, error) {
	text = strings.TrimPrefix(text, "dns:///")
	colon := strings.LastIndexByte(text, ':')
	if colon < 1 {
		return address{}, fmt.Errorf("not a host and a port; %s", acceptedAddresses)
	}
	host := text[:colon]
	port, err := strconv.ParseUint(text[colon+1:], 10, 16)
	if err != nil || port == 0 {
		return address{}, fmt.Errorf("the port must be a number from 1 to 65535; %s", acceptedAddresses)
	}
	bare := host
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		bare = host[1 : len(host)-1]
		if ip, err := netip.ParseAddr(bare); err != nil || !ip.Is6() {
			return address{}, fmt.Errorf("not an IPv6 address in the brackets; %s", acceptedAddresses)
		}
	} else if !hostName.MatchString(host) {
		return address{}, fmt.Errorf("not a host name or IPv4 address before the port; %s", acceptedAddresses)
	}
	ip, err := netip.ParseAddr(bare)
	local := err == nil && ip.IsLoopback() || strings.EqualFold(bare, "localhost")
	target := url.URL{Scheme: "dns", Path: fmt.Sprintf("/%s:%d", host, port)}
	return address{target: target.String(), local: local}, nil
}
