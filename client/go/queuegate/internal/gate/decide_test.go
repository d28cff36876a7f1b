package gate

import (
	"strings"
	"testing"

	"github.com/queuegate/queuegate/client/go/queuegate/internal/policy"
	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// outcome runs a check in shorthand: user@queue, in capitals for administration, followed by the groups,
// if known, and ~ the real user.
func outcome(t *testing.T, partition *policy.Partition, question string) string {
	t.Helper()
	words := strings.Fields(question)
	user, queue, _ := strings.Cut(words[0], "@")
	access := policy.Submit
	if strings.ToUpper(user) == user {
		user, access = strings.ToLower(user), policy.Admin
	}
	var groups []string
	known, realUser := false, ""
	for _, word := range words[1:] {
		if service, is := strings.CutPrefix(word, "~"); is {
			realUser = service
		} else if known = true; word != "-" {
			groups = append(groups, word)
		}
	}
	target, isKnown := partition.Locate(queue, access)
	if !isKnown {
		return "ask"
	}
	decision, evaluated, known := partition.Decide(target, user, groups, known, realUser)
	if !known {
		return "?"
	}
	text := string(decision.Reason)
	for _, part := range []string{decision.MatchedQueue, decision.MatchedSubject} {
		if part != "" {
			text += " " + part
		}
	}
	if evaluated != "" {
		text += " in " + evaluated
	}
	if decision.Allowed {
		return "+" + text
	}
	return text
}

func expectAll(t *testing.T, tables *queuegatev1.PolicyPart, expected map[string]string) {
	t.Helper()
	partition, _, err := readTables(tables)
	if err != nil {
		t.Fatal(err)
	}
	for question, want := range expected {
		if answer := outcome(t, partition, question); answer != want {
			t.Errorf("%s: %q instead of %q", question, answer, want)
		}
	}
}

func TestYuniKorn(t *testing.T) {
	expectAll(t, compile(
		testQueue{"root", "", "boss ops"},
		testQueue{"root.a", "alice devs", "carol"},
		testQueue{"root.a.b", "alice,bob ops,testers", ""},
		testQueue{"root.a.open", "*", "dave"},
		testQueue{"root.@recovery@", "*", "eve"},
	), map[string]string{
		"alice@root.a.b":                         "+user root.a.b alice",
		"alice@ROOT.A.B.new.x":                   "+user root.a.b alice in root.a.b",
		"alice@root.a":                           "+user root.a alice",
		"ALICE@root.a":                           "?",
		"ALICE@root.a -":                         "no_match",
		"carol@root.a.b":                         "+user root.a carol",
		"CAROL@root.a.b":                         "+user root.a carol",
		"boss@root.a.b":                          "+user root boss",
		"eve@root.a.b":                           "?",
		"eve@root.a.b devs ops":                  "+group root.a.b ops",
		"eve@root.a.b x devs":                    "+group root.a devs",
		"EVE@root.a.b devs ops":                  "+group root ops",
		"eve@root.a.b -":                         "no_match",
		"eve@root.a.open":                        "+wildcard root.a.open *",
		"dave@root.a.open":                       "+wildcard root.a.open *",
		"EVE@root.a.open -":                      "no_match",
		"boss@root.@recovery@":                   "recovery_queue root.@recovery@",
		"boss@root.@recovery@.x":                 "recovery_queue root.@recovery@",
		"EVE@root.@recovery@.x":                  "+user root.@recovery@ eve in root.@recovery@",
		"boss@root.@recovery@x":                  "+user root boss in root",
		"boss@elsewhere":                         "ask",
		"boss@root.":                             "ask",
		"boss@root..a":                           "ask",
		"boss@rooted":                            "ask",
		"boss@root.ſ":                            "ask",
		"boss@root.a ~knox":                      "+user root boss",
		"eve@root.a.b - ~knox":                   "no_match",
		"boss@root" + strings.Repeat(".a", 2000): "+user root boss in root.a",
		"boss@root." + strings.Repeat("a", 64):   "+user root boss in root",
		"boss@root." + strings.Repeat("a", 65):   "ask",
	})
}

func TestGroupsThatNoDecisionDependsOn(t *testing.T) {
	expectAll(t, compile(testQueue{"root.a", "alice", ""}, testQueue{"root.g", " g", "*"}), map[string]string{
		"eve@root.a": "no_match", "eve@root.g": "+wildcard root.g *",
	})
}

func TestYARN(t *testing.T) {
	c := newCompiler(queuegatev1.Reason_REASON_NO_MATCH)
	boss := c.chain(0, 0, "boss,yarn admins")
	c.starts[""] = [2]uint32{boss, boss}
	c.add(testQueue{"root.A", "alice", ""}, testQueue{"root.A.b", "bob,~knox g", "~hive"}, testQueue{"root.c", "", ""}, testQueue{"root.c.A", "*", ""})
	c.part.Naming = queuegatev1.QueueNaming_QUEUE_NAMING_YARN_SHORT_NAMES
	expectAll(t, c.part, map[string]string{
		"bob@b":                "+user root.A.b bob",
		"bob@A.b":              "+user root.A.b bob",
		"bob@root.a.b -":       "no_match in root",
		"alice@A":              "no_match", // two queues share this name
		"alice@root.A":         "+user root.A alice",
		"boss@root.A":          "+cluster_admin boss",
		"YARN@root.A":          "+cluster_admin yarn",
		"eve@root.A admins":    "+cluster_admin admins",
		"eve@root.A":           "?",
		"eve@root.A.b ~knox":   "+user root.A.b ~knox",
		"EVE@root.A.b.x ~hive": "+user root.A.b ~hive in root.A.b",
		"EVE@root.A.b - ~knox": "no_match",
		"eve@root.A.b g ~knox": "+group root.A.b g",
		"eve@x..y":             "ask",
		"eve@.x":               "ask",
	})
	disabled := newCompiler(queuegatev1.Reason_REASON_ACLS_DISABLED).add(testQueue{"root", "alice g", ""}, testQueue{"root.c", "", ""})
	disabled.part.Naming = queuegatev1.QueueNaming_QUEUE_NAMING_YARN
	expectAll(t, disabled.part, map[string]string{
		"eve@root.c": "+acls_disabled", "eve@A": "+acls_disabled in root", "EVE@root.x": "+acls_disabled in root",
	})
	everyone := newCompiler(queuegatev1.Reason_REASON_CLUSTER_ADMIN).add(testQueue{"root.a", "alice g", ""})
	everyone.part.Naming = queuegatev1.QueueNaming_QUEUE_NAMING_YARN
	expectAll(t, everyone.part, map[string]string{"eve@a": "+cluster_admin *", "alice@a": "+user root.a alice"})
}

func TestQueuesThatWillBeCreated(t *testing.T) {
	c := newCompiler(queuegatev1.Reason_REASON_NO_MATCH).add(
		testQueue{"root", "boss", ""}, testQueue{"root.dynamic", "", ""}, testQueue{"root.dynamic.old", "", ""},
	).create("root.dynamic.*", "alice g", "carol").create("root.dynamic.own", "bob", "").create("root.dynamic.*.*", "dave", "")
	c.part.CreatedQueues.Submit[1], c.part.Naming = 0, queuegatev1.QueueNaming_QUEUE_NAMING_YARN
	expectAll(t, c.part, map[string]string{
		"alice@dynamic.new":     "+user root.dynamic.new alice",
		"CAROL@dynamic.new":     "+user root.dynamic.new carol",
		"eve@dynamic.x g":       "+group root.dynamic.x g",
		"dave@dynamic.x.y":      "+user root.dynamic.x.y dave",
		"alice@dynamic.x.y":     "+user root.dynamic.x alice",
		"boss@dynamic.x.y":      "+user root boss",
		"alice@dynamic.own":     "ask", // only the server knows
		"alice@dynamic.own.x":   "ask",
		"alice@dynamic.x.y.z":   "ask",
		"boss@dynamic":          "+user root boss",
		"alice@dynamic.old -":   "no_match",
		"alice@dynamic.old.x -": "no_match in root.dynamic.old",
	})
}
