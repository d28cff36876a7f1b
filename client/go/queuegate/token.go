package queuegate

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
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
	setting   string // the name of the setting, for messages
	path      string
	encrypted bool
	header    atomic.Value // a string

	checking    sync.Mutex
	nextCheck   time.Time
	loggedError string // the error of the last check; empty if it succeeded
}

func newBearerToken(setting, path string, encrypted bool) (*bearerToken, error) {
	header, err := readToken(setting, path)
	if err != nil {
		return nil, err
	}
	t := &bearerToken{
		setting: setting, path: path, encrypted: encrypted, nextCheck: time.Now().Add(tokenCheckInterval),
	}
	t.header.Store(header)
	return t, nil
}

// GetRequestMetadata returns the token in the file, or the last valid one.
func (t *bearerToken) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if t.checking.TryLock() { // calls do not wait while another call reads the file
		t.check()
		t.checking.Unlock()
	}
	return map[string]string{"authorization": t.header.Load().(string)}, nil
}

// RequireTransportSecurity returns false only for a server on this machine.
func (t *bearerToken) RequireTransportSecurity() bool {
	return t.encrypted
}

func (t *bearerToken) check() {
	now := time.Now()
	if now.Before(t.nextCheck) {
		return
	}
	t.nextCheck = now.Add(tokenCheckInterval)
	header, err := readToken(t.setting, t.path)
	if err == nil {
		t.header.Store(header)
		t.loggedError = ""
	} else if text := err.Error(); text != t.loggedError {
		t.loggedError = text
		slog.Warn("the token file cannot be read; calls send the last valid token", "error", err)
	}
}

func readToken(setting, path string) (string, error) {
	// Without this flag, opening a pipe blocks until it has a writer.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("%s: %w", setting, err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s %q must be a regular file", setting, path)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxTokenBytes+1))
	if err != nil {
		return "", fmt.Errorf("%s: %w", setting, err)
	}
	token := strings.TrimSpace(string(content))
	invalid := func(char rune) bool { return char < '!' || char > '~' }
	if token == "" || len(content) > maxTokenBytes || strings.ContainsFunc(token, invalid) {
		// The message never quotes the content, since even a malformed token is secret.
		return "", fmt.Errorf("%s %q must contain exactly one ASCII token", setting, path)
	}
	return "Bearer " + token, nil
}
