package policy

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"
)

// readVectors reads vectors of the repository, which are not in the module.
func readVectors(t *testing.T, name string, vectors any) {
	t.Helper()
	content, err := os.ReadFile("../../../../../tests/vectors/" + name)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("only in the repository")
	}
	if err == nil {
		err = json.Unmarshal(content, vectors)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func expectACL(t *testing.T, name string, found acl, users, groups []string, allowsAll bool) {
	t.Helper()
	sorted := func(set names) []string { return slices.Sorted(slices.Values(set.list())) }
	if found.allowsAll != allowsAll || !slices.Equal(sorted(found.users), slices.Sorted(slices.Values(users))) ||
		!slices.Equal(sorted(found.groups), slices.Sorted(slices.Values(groups))) {
		t.Errorf("%s: %+v", name, found)
	}
}

func TestVectorsOfYuniKorn(t *testing.T) {
	var vectors struct {
		Parse []struct {
			ID, ACL, Error string
			Users, Groups  []string
			AllAllowed     bool `json:"all_allowed"`
		}
		Access []struct {
			ID, ACL, User string
			Groups        []string
			Allowed       bool
		}
	}
	readVectors(t, "acl_vectors.json", &vectors)
	for _, each := range vectors.Parse {
		found, err := YuniKorn(each.ACL)
		if (err != nil) != (each.Error != "") {
			t.Error(each.ID, err)
		}
		expectACL(t, each.ID, found, each.Users, each.Groups, each.AllAllowed)
	}
	for _, each := range vectors.Access {
		found, err := YuniKorn(each.ACL)
		if err != nil {
			t.Error(each.ID, err)
		}
		decision, known := nobody.extend(root, found).decide(each.User, each.Groups, true)
		if decision.Allowed != each.Allowed || !known {
			t.Errorf("%s: %+v, %v", each.ID, decision, known)
		}
	}
}

func TestVectorsOfYARN(t *testing.T) {
	type expected struct {
		Users, Groups []string
		AllAllowed    bool `json:"all_allowed"`
		Allowed       bool
	}
	var vectors []struct {
		ID, Source string
		Also       []string
		Divergent  bool
		Input      struct {
			Op, ACL, User string
			Groups        []string
			RealUser      string `json:"real_user"`
		}
		Expect json.RawMessage
	}
	readVectors(t, "yarn_vectors.json", &vectors)
	grammars := map[string]Grammar{"seed": Documented, "hadoop-code": Hadoop}
	tried := 0
	for _, each := range vectors {
		if each.Input.Op != "parse" && each.Input.Op != "allowed" {
			continue
		}
		answers := map[string]expected{}
		if each.Divergent {
			if err := json.Unmarshal(each.Expect, &answers); err != nil {
				t.Fatal(err)
			}
		} else {
			var answer expected
			if err := json.Unmarshal(each.Expect, &answer); err != nil {
				t.Fatal(err)
			}
			for _, source := range append(each.Also, each.Source) {
				answers[source] = answer
			}
		}
		for source, answer := range answers {
			grammar := grammars[source]
			if grammar == nil {
				continue
			}
			tried++
			found, err := grammar(each.Input.ACL)
			if err != nil {
				t.Fatal(err)
			}
			if each.Input.Op == "parse" {
				expectACL(t, each.ID+" "+source, found, answer.Users, answer.Groups, answer.AllAllowed)
			} else if decision, _ := nobody.extend(root, found).decide(each.Input.User, each.Input.Groups, true); answer.Allowed !=
				(decision.Allowed || found.proxies.has(each.Input.RealUser)) {
				t.Errorf("%s %s: %+v", each.ID, source, decision)
			}
		}
	}
	if tried < 60 {
		t.Error(tried)
	}
}

func TestManyNames(t *testing.T) {
	var list []string
	for i := range 3 * maxFew {
		list = append(list, string(rune('a'+i)))
		set := namesOf(list)
		for j, name := range list {
			if !set.has(name) {
				t.Error(i, j)
			}
		}
		if set.has("none") || len(set.list()) != i+1 || len(set.with(names{}).list()) != i+1 ||
			len(set.with(namesOf([]string{"none"})).list()) != i+2 {
			t.Error(i)
		}
	}
}

func TestVectorsOfUserNames(t *testing.T) {
	var vectors struct {
		UserNames []struct {
			ID, User string
			Valid    bool
		} `json:"user_names"`
	}
	readVectors(t, "usergroup_vectors.json", &vectors)
	for _, each := range vectors.UserNames {
		if IsUserName(each.User) != each.Valid {
			t.Errorf("%s: %q", each.ID, each.User)
		}
	}
	if len(vectors.UserNames) < 30 {
		t.Error(len(vectors.UserNames))
	}
}
