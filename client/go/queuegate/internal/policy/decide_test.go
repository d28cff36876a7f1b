package policy

import (
	"strings"
	"testing"
)

type given struct{ path, submit, admin string }

func build(t *testing.T, builder *Builder, queues ...given) *Partition {
	t.Helper()
	for _, each := range queues {
		if err := builder.Add(each.path, each.submit, each.admin); err != nil {
			t.Fatal(err)
		}
	}
	return builder.Build()
}

// asked decides a question in words: user@queue, in capitals for administration; then the groups,
// if they are known, and ~ the real user.
func asked(t *testing.T, partition *Partition, question string) string {
	t.Helper()
	words := strings.Fields(question)
	user, queue, _ := strings.Cut(words[0], "@")
	access := Submit
	if strings.ToUpper(user) == user {
		user, access = strings.ToLower(user), Admin
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
	place, isPath := partition.Locate(queue)
	if !isPath {
		return "no path"
	}
	decision, evaluated, known, err := partition.Decide(place, access, user, groups, known, realUser)
	if err != nil {
		return "error"
	}
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

func expectAll(t *testing.T, partition *Partition, expected map[string]string) {
	t.Helper()
	for question, want := range expected {
		for range 2 { // compiled once
			if found := asked(t, partition, question); found != want {
				t.Errorf("%s: %q instead of %q", question, found, want)
			}
		}
	}
}

func TestYuniKorn(t *testing.T) {
	expectAll(t, build(t, NewBuilder(YuniKorn),
		given{"root", "", "boss ops"},
		given{"root.a", "alice devs", "carol"},
		given{"root.a.b", "alice,bob ops,testers", ""},
		given{"root.a.open", "*", "dave"},
		given{"root.@recovery@", "*", "eve"},
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
		"boss@elsewhere":                         "no path",
		"boss@root.":                             "no path",
		"boss@root..a":                           "no path",
		"boss@rooted":                            "no path",
		"boss@root.ſ":                            "no path",
		"boss@root.a ~knox":                      "+user root boss",
		"eve@root.a.b - ~knox":                   "no_match",
		"boss@root" + strings.Repeat(".a", 2000): "+user root boss in root.a",
		"boss@root." + strings.Repeat("a", 64):   "+user root boss in root",
		"boss@root." + strings.Repeat("a", 65):   "no path",
	})
}

func TestNamesOfYuniKorn(t *testing.T) {
	queue := given{"root", "a.b,system:serviceaccount:n:s d.d,g", "x$"}
	expectAll(t, build(t, NewBuilder(YuniKorn), queue), map[string]string{
		"a.b@root":                       "+user root a.b",
		"system:serviceaccount:n:s@root": "?",
		"y@root d.d":                     "no_match",
		"x$@root":                        "+user root x$",
	})
	expectAll(t, build(t, NewBuilder(Extended), queue), map[string]string{
		"system:serviceaccount:n:s@root": "+user root system:serviceaccount:n:s",
		"y@root d.d":                     "+group root d.d",
	})
}

func TestADeniedGroupIsNotNeeded(t *testing.T) {
	partition := build(t, NewBuilder(YuniKorn), given{"root", "", ""}, given{"root.a", "alice", ""}, given{"root.g", " g", "*"})
	expectAll(t, partition, map[string]string{"eve@root.a": "no_match", "eve@root.g": "+wildcard root.g *"})
}

func TestCapacityScheduler(t *testing.T) {
	queues := []given{{"root", " ", " "}, {"root.A", "alice", ""}, {"root.A.b", "bob,~knox g", "~hive"}, {"root.c", "", ""}, {"root.c.A", "*", ""}}
	settings := Cluster{AdminACL: "boss admins", AdminUsers: []string{"boss", "yarn"}, ACLsEnabled: true, HasShortNames: true}
	expectAll(t, build(t, NewClusterBuilder(settings), queues...), map[string]string{
		"bob@b":                "+user root.A.b bob",
		"bob@root.A.b":         "+user root.A.b bob",
		"bob@A.b":              "+user root.A.b bob",
		"bob@root.a.b -":       "no_match in root",
		"alice@A":              "no_match", // two queues have this name
		"alice@root.A":         "+user root.A alice",
		"boss@root.c":          "+cluster_admin boss",
		"YARN@root.c":          "+cluster_admin yarn",
		"eve@root.c admins":    "+cluster_admin admins",
		"eve@root.c":           "?",
		"eve@root.A.b ~knox":   "?",
		"eve@root.A.b - ~knox": "no_match",
		"eve@x..y":             "no path",
		"eve@.x":               "no path",
	})
	settings.Hadoop = true
	expectAll(t, build(t, NewClusterBuilder(settings), queues...), map[string]string{
		"boss@root.c":          "no_match",
		"eve@root.A.b ~knox":   "+user root.A.b ~knox",
		"EVE@root.A.b.x ~hive": "+user root.A.b ~hive in root.A.b",
		"EVE@root.A.b - ~knox": "no_match",
		"eve@b.x - ~hive":      "no_match in root",
		"eve@root.A.b g ~knox": "+group root.A.b g",
	})
	settings.ACLsEnabled = false
	expectAll(t, build(t, NewClusterBuilder(settings), queues...), map[string]string{
		"eve@root.c": "+acls_disabled", "eve@A": "+acls_disabled", "EVE@root.x": "+acls_disabled in root",
	})
}

func TestFairScheduler(t *testing.T) {
	settings := Cluster{ACLsEnabled: false, ChecksSubmissionAlways: true, Hadoop: true}
	expectAll(t, build(t, NewClusterBuilder(settings), given{"root", "alice", ""}), map[string]string{
		"eve@root.x": "no_match in root", "EVE@root.x": "+acls_disabled in root", "eve@A": "no_match in root",
	})
	settings.Hadoop = false
	expectAll(t, build(t, NewClusterBuilder(settings), given{"root", "alice", ""}), map[string]string{
		"eve@root": "+acls_disabled", "alice@root": "+acls_disabled",
	})
	everyone := Cluster{ACLsEnabled: true, AdminACL: "*"}
	expectAll(t, build(t, NewClusterBuilder(everyone), given{"root.a", "alice g", ""}), map[string]string{
		"eve@a": "+cluster_admin *", "alice@a": "+user root.a alice",
	})
}

func TestWhiteSpaceInNamesOfYARN(t *testing.T) {
	queue := given{"root", "a\x1cb,c\u00a0d,e\u200bf x\ty,z\u2003", ""}
	documented := build(t, NewClusterBuilder(Cluster{ACLsEnabled: true}), queue)
	hadoop := build(t, NewClusterBuilder(Cluster{ACLsEnabled: true, Hadoop: true}), queue)
	for user, want := range map[string][2]bool{ // as documented, in Hadoop
		"a\x1cb":   {false, true},
		"c\u00a0d": {false, true},
		"e\u200bf": {true, true},
	} {
		for i, partition := range []*Partition{documented, hadoop} {
			place, _ := partition.Locate("root")
			decision, _, _, err := partition.Decide(place, Submit, user, nil, true, "")
			if decision.Allowed != want[i] || err != nil {
				t.Errorf("%q, %d: %+v, %v", user, i, decision, err)
			}
		}
	}
}

func TestBuilder(t *testing.T) {
	builder := NewBuilder(YuniKorn)
	expectAll(t, builder.Build(), map[string]string{"eve@root.x": "no_match in root"})
	if err := NewBuilder(YuniKorn).Add("root.a.b", "", ""); err == nil {
		t.Error("a queue without its parent was added")
	}
	expectAll(t, build(t, NewBuilder(YuniKorn), given{"root", "a b c", ""}), map[string]string{"eve@root": "error"})
}

func TestALongACL(t *testing.T) {
	long := strings.Repeat("user,", longACL/5+1) + "alice g"
	partition := build(t, NewBuilder(YuniKorn), given{"root", long, strings.Repeat(" ", longACL+1)}, given{"root.a", "bob", long})
	if partition.queues["root"].acls[Submit].parsed.Load() == nil || partition.queues["root.a"].acls[Submit].parsed.Load() != nil {
		t.Error("long ACLs, and only these, are parsed at once")
	}
	expectAll(t, partition, map[string]string{"ALICE@root": "error", "bob@root.a": "error"})
}

func TestPartitionNames(t *testing.T) {
	for given, want := range map[string]string{
		"": "default", "gpu": "gpu", "[rm]gpu": "gpu", "[rm]": "", "[": "[", "x]": "x]", "[a]b]c": "b]c",
	} {
		if found := PartitionName(given); found != want {
			t.Errorf("%q: %q", given, found)
		}
	}
}
