package queuegate

import (
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

var rounds = flag.Int("rounds", 4, "rounds of the comparison of a gate with a server, of 2 000 questions each")

const differentialSettings = `
listen: [127.0.0.1:0]
callers: {loopback: {roles: [check, read, admin, sync], assert_groups: true}}
policies:
  - {path: queues.yaml}
  - {path: fair.xml, partition: fair, yarn_site: site.xml}
  - {path: fair.xml, partition: fair-hadoop, yarn_site: site.xml, daemon_user: yarn}
  - {path: capacity.xml, partition: capacity, yarn_site: site.xml, daemon_user: yarn}
  - {path: capacity.xml, partition: capacity-hadoop, yarn_site: site.xml}
resolvers: {table: {type: test}}
partitions:
  gpu: {acl_names: extended, resolver: table}
  any: {acl_names: any, resolver: table}
  fair: {resolver: table, trust_provided_groups: false}
  fair-hadoop: {semantics: hadoop}
  capacity-hadoop: {semantics: hadoop, resolver: table}
`

var (
	someUsers = []string{
		"alice", "bob", "eve", "yarn", "testuser1", "testuser2", "testuser4", "testuser5", "*", "robot$",
		"carol.x", "system:serviceaccount:ns:sa", "é", "~knox", "knox", "", "a\tb", "u\u2028", "1:a", "a\u200b",
	}
	someGroups   = []string{"g", "ops", "group1000", "group1001", "901", "d.d", "é", "alice", "*", "", "/org/team", "a\u200bb"}
	someLevels   = []string{"a", "b", "c", "q-1", "prod", "@recovery@"}
	someACLs     = []string{"", " ", "*", " *", "* ", "bob", " g", "eve,carol.x ops", "robot$,alice g", "bob,~carol g,group1001"}
	yunikornACLs = []string{"system:serviceaccount:ns:sa d.d", "é,bob", "a$$,bob g$", "*,bob", "\u00a0*\u2003", " 901,ops", "\tbob", "1:a,** *x,/org/team", "a\u200b,* a\u200bb", "\u2028,u\u2028 *"}
	yarnACLs     = []string{
		"~knox", "bob,~carol g", "bob *", "u g ops", "bob g, ops", "\n bob", "*,bob", "carol  g", "d d",
		" g ops", "bob\t", "é", "~", " ~knox", "~knox,~ ops", "bob,,eve ,g", "eve\u2003,bob", "eve\nbob ops\ng",
	}
)

func pick[Each any](from []Each) Each { return from[rand.IntN(len(from))] }

// randomQueues returns random paths, parents first.
func randomQueues(levels []string) []string {
	first := "root." + pick(levels)
	paths := []string{"root", first}
	known := map[string]bool{"root": true, first: true}
	for range rand.IntN(20) {
		path := pick(paths) + "." + pick(levels)
		if !known[path] && strings.Count(path, ".") < 6 {
			known[path] = true
			paths = append(paths, path)
		}
	}
	return paths
}

func below(path string, paths []string) (got []string) {
	for _, each := range paths {
		if name, is := strings.CutPrefix(each, path+"."); is && !strings.Contains(name, ".") {
			got = append(got, each)
		}
	}
	return got
}

func lastLevel(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

func randomYAML(partitions ...string) string {
	text := "partitions:\n"
	acls := append(append([]string{}, someACLs...), yunikornACLs...)
	for _, name := range partitions {
		paths := randomQueues(someLevels[:5])
		var write func(path, indent string)
		write = func(path, indent string) {
			text += fmt.Sprintf("%s- name: %s\n%s  submitacl: %q\n%s  adminacl: %q\n",
				indent, lastLevel(path), indent, pick(acls), indent, pick(acls))
			if children := below(path, paths); children != nil {
				text += indent + "  queues:\n"
				for _, child := range children {
					write(child, indent+"    ")
				}
			}
		}
		text += fmt.Sprintf("  - name: %q\n    usergroupresolver: {type: %s}\n    queues:\n", name, pick([]string{`""`, "test"}))
		write("root", "      ")
	}
	return text
}

func escaped(text string) string {
	var out strings.Builder
	if err := xml.EscapeText(&out, []byte(text)); err != nil {
		panic(err)
	}
	return out.String()
}

var yarnLevels = append([]string{"A", "root", "x y", "é"}, someLevels...)

func randomFair() string {
	paths := randomQueues(yarnLevels)
	acls := append(append([]string{}, someACLs[1:]...), yarnACLs...)
	var queue func(path string) string
	queue = func(path string) string {
		text := fmt.Sprintf("<queue name=%q><aclSubmitApps>%s</aclSubmitApps><aclAdministerApps>%s</aclAdministerApps>",
			lastLevel(path), escaped(pick(acls)), escaped(pick(acls)))
		for _, child := range below(path, paths) {
			text += queue(child)
		}
		return text + "</queue>"
	}
	return "<allocations>" + queue("root") + "</allocations>"
}

func property(name, value string) string {
	return fmt.Sprintf("<property><name>%s</name><value>%s</value></property>", escaped(name), escaped(value))
}

func randomCapacity() string {
	paths := randomQueues(yarnLevels)
	acls := append(append([]string{}, someACLs[1:]...), yarnACLs...)
	text := "<configuration>"
	for _, path := range paths {
		key := "yarn.scheduler.capacity." + path + "."
		text += property(key+"acl_submit_applications", pick(acls))
		text += property(key+"acl_administer_queue", pick(acls))
		var names []string
		for _, child := range below(path, paths) {
			names = append(names, lastLevel(child))
		}
		if names != nil {
			text += property(key+"queues", strings.Join(names, ","))
		}
	}
	return text + "</configuration>"
}

func randomSite() string {
	acls := append(append([]string{}, someACLs[1:]...), yarnACLs...)
	return "<configuration>" + property("yarn.acl.enable", strconv.FormatBool(rand.IntN(4) > 0)) +
		property("yarn.admin.acl", pick(acls)) + "</configuration>"
}

func randomQuestion() Check {
	question := Check{
		User:      pick(someUsers),
		Partition: pick([]string{"", "default", "gpu", "any", "[rm]gpu", "[x]gpu", "fair", "fair-hadoop", "capacity", "capacity-hadoop", "[rm]default", "tpu"}),
		Access:    pick([]Access{"", Submit, Admin}),
	}
	if rand.IntN(3) == 0 {
		question.RealUser = pick([]string{"knox", "carol", "bob", "~knox"})
	}
	for rand.IntN(2) == 0 {
		question.Groups = append(question.Groups, pick(someGroups))
	}
	question.NoGroups = question.Groups == nil && rand.IntN(4) == 0
	levels := []string{pick([]string{"root", "root", "root", "root", "Root", "a", "b"})}
	for range rand.IntN(5) {
		levels = append(levels, pick(append([]string{"B", "ſ"}, yarnLevels...)))
	}
	question.Queue = pick([]string{"", "", "", "", "", ".", "@recovery@", " "})
	if question.Queue == "" {
		question.Queue = strings.Join(levels, ".")
	}
	if rand.IntN(100) == 0 {
		question.Queue += strings.Repeat(".a", rand.IntN(2500))
	}
	return question
}

// A gate makes the same decisions as its server under any policy and semantics, including immediately
// after a reload or an invalidation that waits for gates. It never reverts to an earlier state.
func TestAGateDecidesAsTheServer(t *testing.T) {
	folder := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change := func() {
		partitions := []string{"default", "gpu", "any", "[rm]gpu"}[:3+rand.IntN(2)]
		write("queues.yaml", randomYAML(partitions...))
		write("fair.xml", randomFair())
		write("capacity.xml", randomCapacity())
		write("site.xml", randomSite())
	}
	change()
	settings := differentialSettings
	for _, name := range []string{"queues.yaml", "fair.xml", "capacity.xml", "site.xml"} {
		settings = strings.ReplaceAll(settings, name, filepath.Join(folder, name))
	}
	write("queuegate.yaml", settings)
	address, _ := serve(t, "", "--config", filepath.Join(folder, "queuegate.yaml"))
	gate := openGate(t, GateConfig{Config: Config{Address: address}})
	client := gate.client

	var barrier atomic.Uint64
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	for range 2 {
		go func() { ended <- askOn(ctx, gate, &barrier) }()
	}
	for round := range *rounds {
		change()
		reloaded, err := client.Reload(t.Context(), ReloadOptions{Wait: true})
		if err != nil {
			t.Fatal(err)
		}
		barrier.Store(reloaded.Revision)
		if !reloaded.Succeeded {
			for _, each := range reloaded.Diagnostics {
				if each.Severity == queuegatev1.Severity_SEVERITY_ERROR {
					t.Error("round", round, each)
				}
			}
		}
		var questions []Check
		for len(questions) < 2_000 {
			if question := randomQuestion(); question.faults() == nil {
				questions = append(questions, question)
			}
		}
		for range 2 { // the second time, the groups are cached
			compare(t, gate, questions)
			compareQueues(t, gate, questions[:100])
		}
		invalidate := InvalidateOptions{Partition: pick([]string{"default", "fair"}), Wait: true}
		if rand.IntN(2) == 0 {
			_, err = client.Invalidate(t.Context(), someUsers[:2], invalidate)
		} else {
			_, err = client.InvalidateAll(t.Context(), invalidate)
		}
		if err != nil {
			t.Fatal(err)
		}
		compare(t, gate, questions[:500])
	}
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Log("decided by the gate:", gate.Decided(), "resets:", gate.Resets())
	if gate.Decided() < uint64(1_000**rounds) || gate.Resets() != 0 {
		t.Error(gate.Decided(), gate.Resets())
	}
}

func compare(t *testing.T, gate *Gate, questions []Check) {
	t.Helper()
	want, err := gate.client.CheckMany(t.Context(), questions)
	if err != nil {
		t.Fatal(err)
	}
	got, err := gate.CheckMany(t.Context(), questions)
	if err != nil {
		t.Fatal(err)
	}
	wrong := 0
	for i, question := range questions {
		if got[i].Decision != want[i].Decision || !errors.Is(got[i].Err, errors.Unwrap(want[i].Err)) {
			if wrong++; wrong < 5 {
				t.Errorf("%+v: %+v instead of %+v", question, got[i], want[i])
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d wrong decisions", wrong)
	}
}

func compareQueues(t *testing.T, gate *Gate, questions []Check) {
	t.Helper()
	for _, question := range questions {
		listing := QueueListing{
			User: question.User, Prefix: pick([]string{"", "root", question.Queue}), Partition: question.Partition,
			Access: question.Access, Groups: question.Groups, NoGroups: question.NoGroups,
			RealUser: question.RealUser,
		}
		want, failed := gate.client.ListQueues(t.Context(), listing)
		got, err := gate.ListQueues(t.Context(), listing)
		if !slices.Equal(got, want) || !errors.Is(err, errors.Unwrap(failed)) {
			t.Errorf("%+v: %v, %v instead of %v, %v", listing, got, err, want, failed)
		}
	}
}

// askOn runs checks in a loop. No decision is from a revision older than the barrier's.
func askOn(ctx context.Context, gate *Gate, barrier *atomic.Uint64) error {
	for ctx.Err() == nil {
		question := randomQuestion()
		if question.faults() != nil {
			continue
		}
		least := barrier.Load()
		decision, err := gate.Check(ctx, question)
		switch {
		case err == nil && decision.PolicyRevision < least:
			return fmt.Errorf("%+v of revision %d after %d", decision, decision.PolicyRevision, least)
		case err != nil && errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrGroupsUnavailable) && ctx.Err() == nil:
			return err
		}
	}
	return nil
}
