// Command go-gate is a scheduler shim that decides in its own process: only applications that may
// use their queue get through, even while queuegate restarts.
//
// It reads one application per line, user and queue, and prints its verdict:
//
//	echo "sue root.sandbox" | go run .
//
// The server is at QUEUEGATE_ADDRESS, or on loopback. It must give this caller the role sync.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/queuegate/queuegate/client/go/queuegate"
)

func main() {
	log.SetFlags(0)
	gate, err := queuegate.NewGate(queuegate.GateConfig{
		// How long the shim keeps deciding from its last state while it cannot reach a server.
		Stale:    time.Minute,
		OnChange: func() { log.Print("using another policy") },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer gate.Close()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		user, queue, _ := strings.Cut(lines.Text(), " ")
		fmt.Println(verdict(context.Background(), gate, user, queue))
	}
}

// verdict returns the verdict on an application. Only a clear yes lets it through.
func verdict(ctx context.Context, gate *queuegate.Gate, user, queue string) string {
	before := gate.Decided()
	decision, err := gate.Check(ctx, queuegate.Check{User: user, Queue: queue})
	how := "asked"
	switch {
	case decision.Stale:
		how = "decided here, without a lease"
	case gate.Decided() > before:
		how = "decided here"
	}
	switch {
	case errors.Is(err, queuegate.ErrUnavailable), errors.Is(err, queuegate.ErrNotPermitted):
		// Not a denial, even if the shim lacks a role: keep the application and ask again.
		return fmt.Sprintf("wait: %v", err)
	case err != nil:
		return fmt.Sprintf("reject: %v", err)
	case !decision.Allowed:
		return fmt.Sprintf("reject: %s may not submit to %s (%s; %s)", user, queue, decision.Reason, how)
	}
	return fmt.Sprintf("admit: by %s (%s)", decision.Reason, how)
}
