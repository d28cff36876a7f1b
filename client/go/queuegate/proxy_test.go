package queuegate

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const proxyChild = "TEST_QUEUEGATE_PROXY_CHILD"

// This name cannot be resolved, so a request for it at the proxy shows that the proxy is used. Loopback
// would not work, because Go never uses a proxy for it.
const beyondProxy = "queuegate.invalid:50051"

// TestProxiesOfTheEnvironment runs clients in separate processes whose environment names a running
// proxy, because Go reads these variables once per process.
func TestProxiesOfTheEnvironment(t *testing.T) {
	if kind := os.Getenv(proxyChild); kind != "" {
		connectInChild(t, kind)
		return
	}
	for kind, want := range map[string]bool{"plain": true, "client": false, "gate": false} {
		t.Run(kind, func(t *testing.T) {
			proxy, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer proxy.Close()
			asked := make(chan struct{}, 100)
			go func() {
				for {
					connection, err := proxy.Accept()
					if err != nil {
						return
					}
					// Ignore clients of other tests that reconnect to their servers.
					verb := make([]byte, len("CONNECT"))
					connection.SetReadDeadline(time.Now().Add(10 * time.Second))
					if _, err := io.ReadFull(connection, verb); err == nil && string(verb) == "CONNECT" {
						asked <- struct{}{}
					}
					connection.Close()
				}
			}()
			child := exec.Command(os.Args[0], "-test.run=^TestProxiesOfTheEnvironment$")
			child.Env = append(os.Environ(), proxyChild+"="+kind, "NO_PROXY=", "no_proxy=")
			for _, name := range []string{
				"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "GRPC_PROXY", "grpc_proxy",
			} {
				child.Env = append(child.Env, name+"=http://"+proxy.Addr().String())
			}
			if output, err := child.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
			if got := len(asked) > 0; got != want {
				t.Errorf("the proxy was asked: %t, want %t", got, want)
			}
		})
	}
}

// connectInChild attempts to connect, and returns once the attempt has failed.
func connectInChild(t *testing.T, kind string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch kind {
	case "plain":
		connection, err := grpc.NewClient(beyondProxy, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		if err := connection.Invoke(ctx, "/a/b", nil, nil); err == nil {
			t.Fatal("there is no such server")
		}
	case "client":
		client := connect(t, Config{Address: beyondProxy, Timeout: time.Minute, Retry: Retry{Attempts: 1}})
		if _, err := client.Check(ctx, Check{User: "sue", Queue: "root"}); err == nil {
			t.Fatal("there is no such server")
		}
	case "gate":
		gate, err := NewGate(GateConfig{Config: Config{Address: beyondProxy, Timeout: time.Minute, Retry: Retry{Attempts: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		defer gate.Close()
		if _, err := gate.Check(ctx, Check{User: "sue", Queue: "root"}); err == nil {
			t.Fatal("there is no such server")
		}
	default:
		t.Fatal("unknown kind: ", kind)
	}
}
