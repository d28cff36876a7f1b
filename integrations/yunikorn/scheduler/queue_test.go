package main

import (
	"os"
	"testing"

	"github.com/apache/yunikorn-core/pkg/common/security"
	"github.com/apache/yunikorn-core/pkg/entrypoint"
	"github.com/apache/yunikorn-core/pkg/scheduler/objects"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// closed are queues without ACLs: the scheduler itself lets nobody in.
const closed = `
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: analytics
            queues:
              - name: reports
`

// queue returns root.analytics.reports of a scheduler. The server at QUEUEGATE_ADDRESS serves
// queues.yaml of the folder above.
func queue(tb testing.TB, config string) *objects.Queue {
	tb.Helper()
	if os.Getenv("QUEUEGATE_ADDRESS") == "" {
		tb.Skip("QUEUEGATE_ADDRESS is not set")
	}
	services := entrypoint.StartAllServicesWithManualScheduler()
	tb.Cleanup(services.StopAll)
	_, err := services.RMProxy.RegisterResourceManager(&si.RegisterResourceManagerRequest{
		RmID: manager, PolicyGroup: "queues", Version: "1", Config: config,
	}, &callback{})
	if err != nil {
		tb.Fatal(err)
	}
	partition := services.Scheduler.GetClusterContext().GetPartition("[" + manager + "]default")
	return partition.GetQueue("root.analytics.reports")
}

// No other test asks CheckAdminAccess, because nothing in yunikorn-core calls it.
func TestAccess(t *testing.T) {
	reports := queue(t, closed)
	for _, each := range []struct {
		user          security.UserGroup
		submit, admin bool
	}{
		{security.UserGroup{User: "sue"}, true, false},
		{security.UserGroup{User: "ann", Groups: []string{"analysts"}}, true, false},
		{security.UserGroup{User: "ann", Groups: []string{"dev", "platform"}}, true, true},
		{security.UserGroup{User: "ann", Groups: []string{"dev"}}, false, false},
		{security.UserGroup{User: "analysts"}, true, false}, // queuegate resolves groups
		{security.UserGroup{}, false, false},                // an error
	} {
		if got := reports.CheckSubmitAccess(each.user); got != each.submit {
			t.Errorf("submit access of %v: %v", each.user, got)
		}
		if got := reports.CheckAdminAccess(each.user); got != each.admin {
			t.Errorf("admin access of %v: %v", each.user, got)
		}
	}
}

func BenchmarkCheckSubmitAccess(b *testing.B) {
	config, err := os.ReadFile("../queues.yaml")
	if err != nil {
		b.Fatal(err)
	}
	reports := queue(b, string(config))
	user := security.UserGroup{User: "ann", Groups: []string{"analysts"}}
	for b.Loop() {
		if !reports.CheckSubmitAccess(user) {
			b.Fatal("denied")
		}
	}
}
