package queuegate

import (
	"testing"
)

func TestLegacyLabel(t *testing.T) {
	labels := map[string]string{"team/user": "carol", "mine": "dora", LegacyUserLabel: "bob"}
	expectOwner(t, PodOwner(nil, labels), DefaultUser, nil)
	expectOwner(t, PodOwner(map[string]string{UserInfoAnnotation: ""}, labels), DefaultUser, nil)
	expectOwner(t, PodOwner(nil, labels, LegacyLabel("")), "bob", nil)
	t.Setenv("USER_LABEL_KEY", "team/user")
	// The variable selects the label, but does not enable it.
	expectOwner(t, PodOwner(nil, labels), DefaultUser, nil)
	expectOwner(t, PodOwner(nil, labels, LegacyLabel("")), "carol", nil)
	expectOwner(t, PodOwner(nil, labels, LegacyLabel("mine")), "dora", nil)
	expectOwner(t, PodOwner(nil, nil, LegacyLabel("")), DefaultUser, nil)
}

func TestPodQueueVectors(t *testing.T) {
	var all struct {
		Cases []struct {
			ID, Parent, Name, Placed string
			Labels, Annotations      map[string]string
		}
	}
	readVectors(t, "pod_queue_vectors.json", &all)
	if len(all.Cases) == 0 {
		t.Fatal("vectors are missing")
	}
	for _, each := range all.Cases {
		queue := PodQueue(each.Annotations, each.Labels, each.Parent)
		// The scheduler rejects an invalid queue name; here, the server does.
		if rejected := each.Placed == "" && each.Name != ""; !rejected && queue != each.Placed || rejected && queue == "" {
			t.Errorf("%s: %q, want %q", each.ID, queue, each.Placed)
		}
	}
	labels := map[string]string{"queue": "a.b"}
	if queue := PodQueue(nil, labels, "root"); queue != "root.a_dot_b" {
		t.Error(queue)
	}
}
