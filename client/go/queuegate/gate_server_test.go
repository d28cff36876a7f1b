package queuegate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// openGate returns a live gate.
func openGate(t *testing.T, config GateConfig) *Gate {
	t.Helper()
	if config.Timeout == 0 {
		config.Timeout = time.Minute
	}
	gate, err := NewGate(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gate.Close() })
	eventually(t, "the gate is live", func() bool { return gate.State() == GateLive })
	return gate
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never holds that " + what)
		}
	}
}

// expectDecision expects a local decision once the gate has the policy and the user's groups.
func expectDecision(t *testing.T, gate *Gate, name string, question Check, want Decision) {
	t.Helper()
	eventually(t, name+" is decided by the gate", func() bool {
		got, decided := gate.decide(&question)
		if !decided || got.PolicyRevision != want.PolicyRevision {
			return false
		}
		if got != want {
			t.Errorf("%s: %+v instead of %+v", name, got, want)
		}
		return true
	})
}

func TestQueueVectorsThroughAGate(t *testing.T) {
	var vectors struct {
		Documents []struct {
			ID, YAML  string
			Questions []struct {
				ID, Partition, Queue, User, Access, Error string
				Groups                                    []string
			}
		}
	}
	readVectors(t, "queue_vectors.json", &vectors)
	policy := written(t, vectors.Documents[0].YAML)
	address, _ := serve(t, "127.0.0.1:0", "--policy", policy, "--set", allRoles+",sync")
	gate := openGate(t, GateConfig{Config: Config{Address: address}})
	client := gate.client
	for _, document := range vectors.Documents {
		t.Run(document.ID, func(t *testing.T) {
			if err := os.WriteFile(policy, []byte(document.YAML), 0o600); err != nil {
				t.Fatal(err)
			}
			reloaded, err := client.Reload(t.Context(), ReloadOptions{})
			if !reloaded.GetSucceeded() || err != nil {
				t.Fatal(reloaded, err)
			}
			for _, asked := range document.Questions {
				question := Check{
					User: asked.User, Queue: asked.Queue, Partition: asked.Partition,
					Access: Access(asked.Access), Groups: asked.Groups,
				}
				want, failed := client.Check(t.Context(), question)
				if failed == nil {
					expectDecision(t, gate, asked.ID, question, want)
				}
				got, err := gate.Check(t.Context(), question)
				if got != want || !errors.Is(err, errors.Unwrap(failed)) {
					t.Errorf("%s: %+v, %v instead of %+v, %v", asked.ID, got, err, want, failed)
				}
			}
		})
	}
}

// The vectors of YARN queues, under both semantics.
func TestYARNVectorsThroughAGate(t *testing.T) {
	var vectors []struct {
		ID, Source string
		Also       []string
		Input      struct {
			Op, XML, Queue, User, Action string
			Groups                       []string
			Properties                   map[string]string
			Site                         map[string]string `json:"yarn_site"`
		}
	}
	readVectors(t, "yarn_vectors.json", &vectors)
	folder := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	configuration := func(properties map[string]string) string {
		text := "<configuration>"
		for name, value := range properties {
			text += property(name, value)
		}
		return text + "</configuration>"
	}
	fair := write("fair.xml", "<allocations/>")
	capacity := write("capacity.xml", configuration(map[string]string{"yarn.scheduler.capacity.root.queues": "a"}))
	site := write("site.xml", configuration(map[string]string{"yarn.resourcemanager.hostname": "rm"}))
	settings := write("queuegate.yaml", fmt.Sprintf(`
listen: [127.0.0.1:0]
callers: {loopback: {roles: [check, read, admin, sync]}}
policies:
  - {path: %[1]s, partition: fair, yarn_site: %[3]s}
  - {path: %[1]s, partition: fair-hadoop, yarn_site: %[3]s}
  - {path: %[2]s, partition: capacity, yarn_site: %[3]s}
  - {path: %[2]s, partition: capacity-hadoop, yarn_site: %[3]s}
partitions: {fair-hadoop: {semantics: hadoop}, capacity-hadoop: {semantics: hadoop}}
`, fair, capacity, site))
	address, _ := serve(t, "", "--config", settings)
	gate := openGate(t, GateConfig{Config: Config{Address: address}})
	tried := 0
	for _, each := range vectors {
		asked := each.Input
		if asked.Op != "check" || asked.Queue == "" {
			continue
		}
		tried++
		if asked.XML == "" {
			asked.XML = configuration(asked.Properties)
		}
		kind := "fair"
		if !strings.Contains(asked.XML, "<allocations") {
			kind = "capacity"
		}
		write(kind+".xml", asked.XML)
		write("site.xml", configuration(asked.Site))
		if reloaded, err := gate.Client().Reload(t.Context(), ReloadOptions{}); !reloaded.GetSucceeded() || err != nil {
			t.Fatal(each.ID, reloaded, err)
		}
		question := Check{User: asked.User, Queue: asked.Queue, Groups: asked.Groups}
		if asked.Action == "admin" || asked.Action == "ADMINISTER_QUEUE" {
			question.Access = Admin
		}
		for _, question.Partition = range []string{kind, kind + "-hadoop"} {
			want, err := gate.client.Check(t.Context(), question)
			if err != nil {
				t.Error(each.ID, err)
				continue
			}
			expectDecision(t, gate, each.ID, question, want)
		}
	}
	if tried < 40 {
		t.Error(tried)
	}
}
