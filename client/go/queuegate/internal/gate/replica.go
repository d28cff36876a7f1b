package gate

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/queuegate/queuegate/client/go/queuegate/internal/policy"
	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// rights are what the server lets this gate do.
type rights struct {
	decide       bool
	assertGroups bool // use groups that are given in a question
	report       bool // each decision must be reported
}

// held is the policy of a partition. Immutable.
type held struct {
	name                string
	partition           *policy.Partition
	checksum            []byte
	revision            uint64
	useGivenGroups      bool
	rules               uint32 // the version of the rules by which the server decides
	resolverFingerprint []byte // identifies the settings of the resolver
	size                size
}

// A size is that of one policy, or of several together.
type size struct {
	queues int
	bytes  int // of the parts, as they are sent
}

func (s size) plus(other size) size { return size{s.queues + other.queues, s.bytes + other.bytes} }

func (s size) minus(other size) size { return size{s.queues - other.queues, s.bytes - other.bytes} }

// A state is everything that decides but for the groups of users. Immutable: a change makes another
// one, and a decision holds if its state is still the present one after it was made.
type state struct {
	generation uint64
	policies   map[string]*held
	rights     rights
}

// A replica is a gate's copy of the policies and of users' groups. Only its session changes it.
type replica struct {
	state    atomic.Pointer[state]
	users    users
	partial  bool // it follows only some partitions
	onPolicy func()

	held     map[string]*held // all complete policies, also those that are not confirmed
	heldSize size
	first    *queuegatev1.PolicyPart
	builder  *policy.Builder
	partSize size // of the parts of a policy that is not complete
	hasRoot  bool // whether these parts have the root; otherwise the builder adds one
}

func newReplica(partial bool, onPolicy func()) *replica {
	r := &replica{partial: partial, onPolicy: onPolicy, held: map[string]*held{}}
	r.users.entries = map[userKey]*userEntry{}
	r.state.Store(&state{})
	return r
}

// find returns the policy of a requested partition, if this gate knows its rules. The exact name
// counts first, then the name without the ID of a resource manager; but not if the server may have a
// partition of the exact name that this replica does not follow.
func (s *state) find(name string, partial bool) *held {
	found := s.policies[name]
	if found == nil && (name == "" || !partial) {
		found = s.policies[policy.PartitionName(name)]
	}
	if found == nil || found.rules != policy.Rules {
		return nil
	}
	return found
}

// allow makes these rights decide.
func (r *replica) allow(given rights) {
	if now := r.state.Load(); now.rights != given {
		r.replace(now.policies, given)
	}
}

// reset drops all groups but those of some partitions, and decides from no policy before the
// server has confirmed it.
func (r *replica) reset(keepGroupsOf []string) {
	r.replace(nil, r.state.Load().rights)
	r.users.dropAllBut(keepGroupsOf)
}

// add adds a part of a policy; the last one makes it decide.
func (r *replica) add(part *queuegatev1.PolicyPart) error {
	name := part.GetPartition()
	switch {
	case part.GetRemoved():
		r.dropParts()
		r.drop(name)
		r.change(name, nil)
		return nil
	case part.GetUnchanged():
		r.dropParts()
		known := r.held[name]
		if known == nil || !bytes.Equal(known.checksum, part.GetChecksum()) {
			return fmt.Errorf("the policy of %q cannot be unchanged: this gate does not have it", name)
		}
		changed := *known
		changed.revision, changed.useGivenGroups = part.GetRevision(), part.GetUseGivenGroups()
		changed.resolverFingerprint = part.GetResolverFingerprint()
		r.decideFrom(&changed)
		return nil
	case part.GetFirst():
		r.first, r.builder, r.partSize = part, builderOf(part), size{}
		r.hasRoot = len(part.GetQueues()) > 0 && part.GetQueues()[0].GetPath() == "root"
	case r.first == nil || r.first.GetPartition() != name:
		return errors.New("the first part of a policy is missing")
	}
	if err := r.count(part); err != nil {
		return err
	}
	for _, queue := range part.GetQueues() {
		if err := r.builder.Add(queue.GetPath(), queue.GetSubmitAcl(), queue.GetAdminAcl()); err != nil {
			return err
		}
		if queue.GetCreatesQueues() {
			r.builder.CreatesQueues(queue.GetPath())
		}
	}
	part.Queues = nil // of a first part, which is kept
	if part.GetLast() {
		made, first, sent := r.builder.Build(), r.first, r.partSize
		expected := sent.queues
		if !r.hasRoot {
			expected++
		}
		r.dropParts()
		if made.Size() != expected {
			return fmt.Errorf("the policy of %q has a queue twice", name)
		}
		r.decideFrom(&held{
			name, made, first.GetChecksum(), first.GetRevision(), first.GetUseGivenGroups(), first.GetRules(),
			first.GetResolverFingerprint(), sent,
		})
	}
	return nil
}

// dropParts drops the parts of a policy that is not complete.
func (r *replica) dropParts() { r.first, r.builder = nil, nil }

// count counts a part of a policy. An error says that the policies would exceed the bounds.
func (r *replica) count(part *queuegatev1.PolicyPart) error {
	known := r.held[part.GetPartition()]
	if known == nil && len(r.held) >= maxPartitions {
		return fmt.Errorf("there are more than %d partitions", maxPartitions)
	}
	r.partSize = r.partSize.plus(size{len(part.GetQueues()), proto.Size(part)})
	together := r.heldSize.plus(r.partSize)
	if known != nil {
		together = together.minus(known.size)
	}
	if together.queues > maxQueues {
		return fmt.Errorf("the policies have more than %d queues", maxQueues)
	}
	if together.bytes > maxPolicyBytes {
		return fmt.Errorf("the policies have more than %d bytes", maxPolicyBytes)
	}
	return nil
}

func (r *replica) drop(name string) {
	if known := r.held[name]; known != nil {
		r.heldSize = r.heldSize.minus(known.size)
		delete(r.held, name)
	}
}

func (r *replica) decideFrom(made *held) {
	r.drop(made.name)
	r.held[made.name] = made
	r.heldSize = r.heldSize.plus(made.size)
	r.change(made.name, made)
	r.onPolicy()
}

// change makes another policy decide for a partition, or none.
func (r *replica) change(name string, made *held) {
	now := r.state.Load()
	policies := maps.Clone(now.policies)
	if policies == nil {
		policies = map[string]*held{}
	}
	if delete(policies, name); made != nil {
		policies[name] = made
	}
	r.replace(policies, now.rights)
}

func (r *replica) replace(policies map[string]*held, given rights) {
	r.state.Store(&state{r.state.Load().generation + 1, policies, given})
}

func builderOf(part *queuegatev1.PolicyPart) *policy.Builder {
	settings := part.GetCluster()
	switch {
	case settings != nil:
		return policy.NewClusterBuilder(policy.Cluster{
			AdminACL:               settings.GetAdminAcl(),
			AdminUsers:             settings.GetAdminUsers(),
			ACLsEnabled:            settings.GetAclsEnabled(),
			ChecksSubmissionAlways: settings.GetChecksSubmissionAlways(),
			HasShortNames:          settings.GetHasShortNames(),
			Hadoop:                 settings.GetHadoopSemantics(),
		})
	case part.GetAnyAclNames():
		return policy.NewBuilder(policy.Any).AcceptAnyUser()
	case part.GetExtendedAclNames():
		return policy.NewBuilder(policy.Extended)
	}
	return policy.NewBuilder(policy.YuniKorn)
}
