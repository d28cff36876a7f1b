// Package vectors compares the recorded answers of YuniKorn, with which the tests of queuegate work,
// with those of a released yunikorn-core.
package vectors

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/apache/yunikorn-core/pkg/common"
	"github.com/apache/yunikorn-core/pkg/common/configs"
	"github.com/apache/yunikorn-core/pkg/common/security"
	"github.com/apache/yunikorn-core/pkg/entrypoint"
	"github.com/apache/yunikorn-core/pkg/mock"
	"github.com/apache/yunikorn-core/pkg/scheduler"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

func read(t *testing.T, name string, vectors any) {
	t.Helper()
	content, err := os.ReadFile("../../../tests/vectors/" + name)
	if err == nil {
		err = json.Unmarshal(content, vectors)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func user(name string, groups ...string) security.UserGroup {
	return security.UserGroup{User: name, Groups: groups}
}

func TestACLs(t *testing.T) {
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
	read(t, "acl_vectors.json", &vectors)
	for _, each := range vectors.Parse {
		acl, err := security.NewACL(each.ACL, true)
		if (err != nil) != (each.Error != "") {
			t.Error(each.ID, err)
		}
		if err != nil {
			continue
		}
		// The sets are not public: each name that the text may list is asked about.
		users, groups := map[string]bool{"nobody-else": false}, map[string]bool{"none-else": false}
		for _, field := range strings.Fields(each.ACL) {
			for _, name := range strings.Split(field, ",") {
				users[name], groups[name] = false, false
			}
		}
		for _, name := range each.Users {
			users[name] = true
		}
		for _, name := range each.Groups {
			groups[name] = true
		}
		for name, listed := range users {
			if acl.CheckAccess(user(name)) != (listed || each.AllAllowed) {
				t.Errorf("%s: user %q", each.ID, name)
			}
		}
		for name, listed := range groups {
			if acl.CheckAccess(user("nobody-else", name)) != (listed || each.AllAllowed) {
				t.Errorf("%s: group %q", each.ID, name)
			}
		}
	}
	for _, each := range vectors.Access {
		acl, err := security.NewACL(each.ACL, true)
		if err != nil || acl.CheckAccess(user(each.User, each.Groups...)) != each.Allowed {
			t.Error(each.ID, err)
		}
	}
	t.Log(len(vectors.Parse)+len(vectors.Access), "compared")
}

// load makes a scheduler read a document, and returns it until the end of the test.
func load(t *testing.T, document, manager string) (*scheduler.ClusterContext, error) {
	t.Helper()
	services := entrypoint.StartAllServicesWithManualScheduler()
	t.Cleanup(services.StopAll)
	_, err := services.RMProxy.RegisterResourceManager(&si.RegisterResourceManagerRequest{
		RmID: manager, PolicyGroup: "queues", Version: "1", Config: document,
	}, &mock.ResourceManagerCallback{})
	return services.Scheduler.GetClusterContext(), err
}

func TestQueues(t *testing.T) {
	var vectors struct {
		Documents []struct {
			ID, YAML      string
			RM            string   `json:"rm_id"`
			DynamicQueues []string `json:"dynamic_queues"`
			HasRecovery   bool     `json:"recovery_queue_exists"`
			Questions     []struct {
				ID, Partition, Queue, User, Access, Error string
				Groups                                    []string
				Allowed                                   bool
			}
		}
	}
	read(t, "queue_vectors.json", &vectors)
	compared := 0
	for _, document := range vectors.Documents {
		cluster, err := load(t, document.YAML, document.RM)
		if err != nil {
			t.Error(document.ID, err)
			continue
		}
		if len(document.DynamicQueues) > 0 || document.HasRecovery {
			t.Error(document.ID, "has queues that are made while the scheduler runs, which this test cannot make")
		}
		for _, question := range document.Questions {
			partition := cluster.GetPartition(common.GetNormalizedPartitionName(question.Partition, document.RM))
			if (partition == nil) != (question.Error != "") {
				t.Error(question.ID, question.Error)
			}
			if partition == nil {
				continue
			}
			path := question.Queue
			for partition.GetQueue(path) == nil && strings.Contains(path, ".") {
				path = path[:strings.LastIndex(path, ".")]
			}
			queue := partition.GetQueue(path)
			if queue == nil {
				t.Error(question.ID, "no queue above", question.Queue)
				continue
			}
			ask := queue.CheckSubmitAccess
			if question.Access == "admin" {
				ask = queue.CheckAdminAccess
			}
			if ask(user(question.User, question.Groups...)) != question.Allowed {
				t.Errorf("%+v", question)
			}
			compared++
		}
	}
	t.Log(compared, "compared")
}

func TestDocuments(t *testing.T) {
	var vectors struct {
		Cases []struct {
			ID, YAML string
			Valid    bool
			Loads    *bool
		}
	}
	read(t, "config_vectors.json", &vectors)
	for _, each := range vectors.Cases {
		_, err := configs.LoadSchedulerConfigFromByteArray([]byte(each.YAML))
		if (err == nil) != each.Valid {
			t.Error(each.ID, err)
		}
		if err != nil || each.Loads == nil {
			continue
		}
		if _, err := load(t, each.YAML, "rm"); (err == nil) != *each.Loads {
			t.Error(each.ID, err)
		}
	}
	t.Log(len(vectors.Cases), "compared")
}

func TestUsers(t *testing.T) {
	type converted struct {
		User   string
		Groups []string
	}
	var vectors struct {
		Names []struct {
			ID, User string
			Valid    bool
		} `json:"user_names"`
		Convert []struct {
			ID, Resolver, User, Error string
			Groups                    []string
			Force                     bool
			Result                    *converted
		}
	}
	read(t, "usergroup_vectors.json", &vectors)
	for _, each := range vectors.Names {
		_, err := cache("test").ConvertUGI(&si.UserGroupInformation{User: each.User, Groups: []string{"g"}}, false)
		if (err == nil) != each.Valid {
			t.Errorf("%s: %q: %v", each.ID, each.User, err)
		}
	}
	for _, each := range vectors.Convert {
		found, err := cache(each.Resolver).ConvertUGI(&si.UserGroupInformation{User: each.User, Groups: each.Groups}, each.Force)
		if (err != nil) != (each.Error != "") {
			t.Error(each.ID, err)
		}
		if want := each.Result; err == nil && want != nil &&
			(found.User != want.User || strings.Join(found.Groups, ",") != strings.Join(want.Groups, ",")) {
			t.Errorf("%s: %+v instead of %+v", each.ID, found, *want)
		}
	}
	t.Log(len(vectors.Names)+len(vectors.Convert), "compared")
}

// cache returns an empty cache of groups: Stop ends the one of this process.
func cache(resolver string) *security.UserGroupCache {
	if resolver == "none" {
		resolver = ""
	}
	security.GetUserGroupCache(configs.UserGroupResolver{}, nil, nil).Stop()
	return security.GetUserGroupCache(configs.UserGroupResolver{Type: resolver}, nil, nil)
}
