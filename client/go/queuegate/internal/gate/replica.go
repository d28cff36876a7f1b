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

// rights are this gate's rights, as set by the server.
type rights struct {
	decide       bool
	assertGroups bool // the gate may use groups given in a question
}

// A partitionPolicy is the policy of a partition. Immutable.
type partitionPolicy struct {
	name                string
	partition           *policy.Partition // nil if the gate does not support its rules
	checksum            []byte
	revision            uint64
	useGivenGroups      bool
	resolverFingerprint []byte // identifies the resolver's settings
	size                size
}

// A size is the size of a policy, or the total of several, in the units of sizeLimits.
type size [7]int

var sizeLimits = [len(size{})]struct {
	limit int
	unit  string
}{
	{maxQueues, "queues"},
	{maxQueues, "created queues"},
	{maxNames, "names"},
	{maxLevels, "levels"},
	{maxListed, "names in levels"},
	{maxPolicyBytes, "bytes"}, // of the parts, as sent
	{maxPathsBytes, "bytes in queue paths"},
}

func sizeOf(part *queuegatev1.PolicyPart) size {
	return size{
		len(part.GetConfiguredQueues().GetName()), len(part.GetCreatedQueues().GetName()), len(part.GetNames()),
		len(part.GetLevels().GetAbove()), len(part.GetLevels().GetListed()), proto.Size(part),
	}
}

func (s *size) add(other size, sign int) {
	for i, each := range other {
		s[i] += sign * each
	}
}

// A state contains the policies and rights that decisions depend on. Immutable: each update replaces
// it, and a decision is valid if its state is still current afterwards.
type state struct {
	generation uint64
	policies   map[string]*partitionPolicy
	rights     rights
}

// A replica is a gate's copy of the policies and of users' groups. Only its session changes it.
type replica struct {
	state    atomic.Pointer[state]
	users    users
	partial  bool // the gate follows only some partitions
	onPolicy func()

	held     map[string]*partitionPolicy // all complete policies, including unconfirmed ones
	heldSize size
	parts    *queuegatev1.PolicyPart // the merged parts of the incomplete policy
	partSize size                    // of parts
	readable bool                    // the gate supports the rules of the incomplete policy
}

func newReplica(partial bool, onPolicy func()) *replica {
	r := &replica{partial: partial, onPolicy: onPolicy, held: map[string]*partitionPolicy{}}
	r.users.entries = map[userKey]*userEntry{}
	r.state.Store(&state{policies: map[string]*partitionPolicy{}})
	return r
}

// find returns the policy of a requested partition, if this gate supports its rules. The exact name takes
// precedence over the name without a resource manager ID, which is not used if the server may have a
// partition with the exact name that this replica does not follow.
func (s *state) find(name string, partial bool) *partitionPolicy {
	local := s.policies[name]
	if local == nil && (name == "" || !partial) {
		local = s.policies[policy.PartitionName(name)]
	}
	if local == nil || local.partition == nil {
		return nil
	}
	return local
}

// allow sets the rights.
func (r *replica) allow(given rights) {
	if now := r.state.Load(); now.rights != given {
		r.replace(now.policies, given)
	}
}

// reset drops all groups outside the given partitions, and stops using policies until the server
// confirms them.
func (r *replica) reset(keepGroupsOf []string) {
	r.replace(map[string]*partitionPolicy{}, r.state.Load().rights)
	r.users.dropAllBut(keepGroupsOf)
}

// add adds a part of a policy, which takes effect once complete.
func (r *replica) add(part *queuegatev1.PolicyPart) error {
	name := part.GetPartition()
	switch {
	case part.GetRemoved():
		r.parts = nil
		r.drop(name)
		r.change(name, nil)
		return nil
	case part.GetUnchanged():
		r.parts = nil
		known := r.held[name]
		if known == nil || !bytes.Equal(known.checksum, part.GetChecksum()) {
			return fmt.Errorf("the policy of %q was sent as unchanged, but this gate does not have it", name)
		}
		changed := *known
		changed.revision, changed.useGivenGroups = part.GetRevision(), part.GetUseGivenGroups()
		changed.resolverFingerprint = part.GetResolverFingerprint()
		r.decideFrom(&changed)
		return nil
	case part.GetFirst():
		r.parts, r.partSize = &queuegatev1.PolicyPart{}, size{}
		r.readable = part.GetRules() == policy.Rules && policy.Naming(part.GetNaming()).IsKnown()
	case r.parts == nil || r.parts.GetPartition() != name:
		return errors.New("the first part of a policy is missing")
	}
	if err := r.count(name, sizeOf(part)); err != nil {
		return err
	}
	if r.readable {
		if err := checkRows(r.parts, part); err != nil {
			return fmt.Errorf("the policy of %q: %w", name, err)
		}
	}
	proto.Merge(r.parts, part)
	if !part.GetLast() {
		return nil
	}
	sent := r.parts
	next := &partitionPolicy{
		name: name, checksum: sent.GetChecksum(), revision: sent.GetRevision(),
		useGivenGroups: sent.GetUseGivenGroups(), resolverFingerprint: sent.GetResolverFingerprint(),
	}
	if r.readable {
		partition, pathBytes, err := readTables(sent)
		if err == nil {
			err = r.count(name, size{len(sizeLimits) - 1: pathBytes})
		}
		if err != nil {
			return fmt.Errorf("the policy of %q: %w", name, err)
		}
		next.partition = partition
	}
	next.size = r.partSize
	r.parts = nil
	r.decideFrom(next)
	return nil
}

// count adds to the size of the incomplete policy. It returns an error if the policies then exceed the
// bounds.
func (r *replica) count(name string, more size) error {
	known := r.held[name]
	if known == nil && len(r.held) >= maxPartitions {
		return fmt.Errorf("there are more than %d partitions", maxPartitions)
	}
	r.partSize.add(more, 1)
	together := r.heldSize
	together.add(r.partSize, 1)
	if known != nil {
		together.add(known.size, -1)
	}
	for i, each := range sizeLimits {
		if together[i] > each.limit {
			return fmt.Errorf("the policies have more than %d %s", each.limit, each.unit)
		}
	}
	return nil
}

func (r *replica) drop(name string) {
	if known := r.held[name]; known != nil {
		r.heldSize.add(known.size, -1)
		delete(r.held, name)
	}
}

func (r *replica) decideFrom(next *partitionPolicy) {
	r.drop(next.name)
	r.held[next.name] = next
	r.heldSize.add(next.size, 1)
	r.change(next.name, next)
	r.onPolicy()
}

// change replaces or removes the policy of a partition.
func (r *replica) change(name string, next *partitionPolicy) {
	now := r.state.Load()
	policies := maps.Clone(now.policies)
	if delete(policies, name); next != nil {
		policies[name] = next
	}
	r.replace(policies, now.rights)
}

func (r *replica) replace(policies map[string]*partitionPolicy, given rights) {
	r.state.Store(&state{r.state.Load().generation + 1, policies, given})
}
