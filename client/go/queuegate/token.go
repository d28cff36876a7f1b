package queuegate

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	tokenCheckInterval = time.Second
	maxTokenBytes      = 4096
)

// A bearerToken is reread from its file, at most once a second. It is a
// [credentials.PerRPCCredentials].
type bearerToken struct {
	path      string
	encrypted bool

	mutex       sync.Mutex
	header      string
	nextCheck   time.Time
	loggedError string // the error of the last check; empty if there was none
}

func newBearerToken(path string, encrypted bool) (*bearerToken, error) {
	header, err := readToken(path)
	if err != nil {
		return nil, err
	}
	nextCheck := time.Now().Add(tokenCheckInterval)
	return &bearerToken{path: path, encrypted: encrypted, header: header, nextCheck: nextCheck}, nil
}

// GetRequestMetadata returns the token in the file, or the last valid one.
func (t *bearerToken) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if t.due() {
		t.reread()
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return map[string]string{"authorization": t.header}, nil
}

// RequireTransportSecurity is false only on the way to a server on this machine.
func (t *bearerToken) RequireTransportSecurity() bool {
	return t.encrypted
}

// due returns true to one caller for each interval.
func (t *bearerToken) due() bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now := time.Now()
	if now.Before(t.nextCheck) {
		return false
	}
	t.nextCheck = now.Add(tokenCheckInterval)
	return true
}

// reread reads the file without holding the mutex: no call waits for the file of another.
func (t *bearerToken) reread() {
	header, err := readToken(t.path)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if err == nil {
		t.header, t.loggedError = header, ""
	} else if text := err.Error(); text != t.loggedError {
		t.loggedError = text
		slog.Warn("the token file cannot be read; calls send the last valid token", "error", err)
	}
}

func readToken(path string) (string, error) {
	// A pipe, if opened without this flag, blocks until somebody writes to it.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("Config.TokenFile: %w", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("Config.TokenFile %q must be a regular file", path)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxTokenBytes+1))
	if err != nil {
		return "", fmt.Errorf("Config.TokenFile: %w", err)
	}
	token := strings.TrimSpace(string(content))
	invalid := func(char rune) bool { return char < '!' || char > '~' }
	if token == "" || len(content) > maxTokenBytes || strings.ContainsFunc(token, invalid) {
		// The message never quotes the content: it may be a secret even if it is malformed.
		return "", fmt.Errorf("Config.TokenFile %q must contain exactly one ASCII token", path)
	}
	return "Bearer " + token, nil
}
