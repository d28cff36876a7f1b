package queuegate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// validGroup matches groups allowed in an ACL.
var validGroup = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// The vectors of users and their groups. Each group of a user grants access to a separate queue: the
// gate must have exactly these groups, in order, and send checks to the server where they are
// unavailable.
func TestUserGroupVectorsThroughAGate(t *testing.T) {
	type vector struct {
		ID, User, Error string
		OK              bool
		Groups          []string
	}
	var vectors struct {
		TestResolver []vector `json:"test_resolver"`
		NoResolver   []vector `json:"no_resolver"`
	}
	readVectors(t, "usergroup_vectors.json", &vectors)
	table := map[string][]vector{"test": vectors.TestResolver, "none": vectors.NoResolver}
	policy := "partitions:\n"
	queues := map[string]map[string]string{} // by resolver and group
	for resolver, cases := range table {
		policy += fmt.Sprintf("  - name: %s\n    queues:\n      - name: root\n        queues:\n", resolver)
		policy += "          - {name: nobody, submitacl: ' no_such_group'}\n"
		queues[resolver] = map[string]string{}
		for _, each := range cases {
			for _, group := range each.Groups {
				if validGroup.MatchString(group) && queues[resolver][group] == "" {
					queues[resolver][group] = fmt.Sprint("root.q", len(queues[resolver]))
					policy += fmt.Sprintf("          - {name: q%d, submitacl: %q}\n", len(queues[resolver])-1, " "+group)
				}
			}
		}
	}
	folder := t.TempDir()
	settings := fmt.Sprintf(`
listen: [127.0.0.1:0]
policy: {path: %s}
resolvers: {table: {type: test}}
partitions: {test: {resolver: table}}
`, filepath.Join(folder, "queues.yaml"))
	for name, content := range map[string]string{"queues.yaml": policy, "queuegate.yaml": settings} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address, _ := serve(t, "", "--config", filepath.Join(folder, "queuegate.yaml"))
	gate := openGate(t, GateConfig{Config: Config{Address: address}})
	tried := 0
	for resolver, cases := range table {
		for _, each := range cases {
			for _, queue := range append([]string{"root.nobody"}, values(queues[resolver])...) {
				question := Check{User: each.User, Queue: queue, Partition: resolver}
				want, failed := gate.client.Check(t.Context(), question)
				if failed == nil {
					tried++
					expectDecision(t, gate, each.ID+" in "+queue, question, want)
				}
				got, err := gate.Check(t.Context(), question)
				if got != want || !errors.Is(err, errors.Unwrap(failed)) {
					t.Errorf("%s: %+v, %v instead of %+v, %v", each.ID, got, err, want, failed)
				}
			}
			for _, group := range each.Groups {
				queue := queues[resolver][group]
				if queue == "" {
					continue
				}
				decision, err := gate.Check(t.Context(), Check{User: each.User, Queue: queue, Partition: resolver})
				if decision.Allowed != each.OK || each.OK && (err != nil || decision.MatchedSubject != group) {
					t.Errorf("%s: %+v, %v with the group %s", each.ID, decision, err, group)
				}
			}
		}
	}
	if tried < 20 {
		t.Error(tried)
	}
}

func values(of map[string]string) (got []string) {
	for _, each := range of {
		got = append(got, each)
	}
	return got
}
