package gate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// check returns an error if a message from the server exceeds the bounds. A gate trusts its server, but
// the server may be faulty or replaced by another program.
func check(response *queuegatev1.SyncResponse) error {
	switch message := response.GetMessage().(type) {
	case *queuegatev1.SyncResponse_Opened:
		return checkOpened(message.Opened)
	case *queuegatev1.SyncResponse_Policy:
		return checkPart(message.Policy)
	case *queuegatev1.SyncResponse_Forget:
		return checkCount("forget.users", len(message.Forget.GetUsers()), maxForgotten)
	case *queuegatev1.SyncResponse_Checkpoint:
		epoch := message.Checkpoint.GetFleetCursor().GetEpoch()
		return checkBytes("checkpoint.fleet_cursor.epoch", epoch, maxDigestBytes)
	}
	return nil
}

// hasUsableGroups returns whether a gate can use the groups of a user. If not, the user's checks go to
// the server: a single user with too many groups must not close the stream.
func hasUsableGroups(given *queuegatev1.UserGroups) bool {
	switch given.GetOutcome() {
	case queuegatev1.ResolveOutcome_RESOLVE_OUTCOME_NOT_FOUND:
		return true
	case queuegatev1.ResolveOutcome_RESOLVE_OUTCOME_RESOLVED:
		isTooLong := func(group string) bool { return len(group) > maxNameBytes }
		return len(given.GetGroups()) <= maxGroupsOfUser && !slices.ContainsFunc(given.GetGroups(), isTooLong)
	}
	return false
}

func checkOpened(opened *queuegatev1.SyncOpened) error {
	lease, interval := millis(opened.GetLeaseMillis()), millis(opened.GetPingIntervalMillis())
	switch {
	case lease == 0 || interval == 0:
		return errors.New("`opened` must have a lease and a ping interval")
	case lease > maxLease:
		return fmt.Errorf("`opened` has a lease of %d ms; the longest is %d ms",
			lease.Milliseconds(), maxLease.Milliseconds())
	case interval > maxPing:
		return fmt.Errorf("`opened` has a ping interval of %d ms; the longest is %d ms",
			interval.Milliseconds(), maxPing.Milliseconds())
	}
	return errors.Join(
		checkBytes("opened.epoch", opened.GetEpoch(), maxEpochBytes),
		checkPartitions("opened.partitions", opened.GetPartitions()...),
		checkPartitions("opened.keep_groups_of", opened.GetKeepGroupsOf()...),
	)
}

func checkPart(part *queuegatev1.PolicyPart) error {
	err := errors.Join(
		checkPartitions("policy.partition", part.GetPartition()),
		checkBytes("policy.checksum", part.GetChecksum(), maxDigestBytes),
		checkBytes("policy.resolver_fingerprint", part.GetResolverFingerprint(), maxDigestBytes),
	)
	switch {
	case err != nil:
		return err
	case part.GetRemoved() && part.GetUnchanged():
		return fmt.Errorf("the policy of %q is both removed and unchanged", part.GetPartition())
	case (part.GetRemoved() || part.GetUnchanged()) && (len(part.GetNames()) > 0 || part.GetLevels() != nil ||
		part.GetConfiguredQueues() != nil || part.GetCreatedQueues() != nil):
		return fmt.Errorf("the policy of %q is removed or unchanged, but has queues", part.GetPartition())
	case !part.GetFirst() && !part.GetRemoved() && !part.GetUnchanged() && hasFieldsOfFirst(part):
		return fmt.Errorf("a later part of the policy of %q has fields of the first part", part.GetPartition())
	}
	return nil
}

func hasFieldsOfFirst(part *queuegatev1.PolicyPart) bool {
	return part.GetRevision() != 0 || len(part.GetChecksum()) > 0 || part.GetUseGivenGroups() || part.GetRules() != 0 ||
		len(part.GetResolverFingerprint()) > 0 || part.GetNaming() != 0 || part.GetAmbiguousLevel() != 0
}

func checkPartitions(field string, names ...string) error {
	for _, name := range names {
		if name == "" || len(name) > maxNameBytes {
			return fmt.Errorf("`%s`: a name must have 1 to %d bytes", field, maxNameBytes)
		}
	}
	return checkCount(field, len(names), maxPartitions)
}

func checkBytes(field string, value []byte, limit int) error {
	if len(value) > limit {
		return fmt.Errorf("`%s` has %d bytes; the limit is %d", field, len(value), limit)
	}
	return nil
}

func checkCount(field string, count, limit int) error {
	if count > limit {
		return fmt.Errorf("`%s` has %d items; the limit is %d", field, count, limit)
	}
	return nil
}

func millis(number uint32) time.Duration { return time.Duration(number) * time.Millisecond }

// textToLog returns a server's text, truncated if too long. The logger escapes it.
func textToLog(text string) string {
	if len(text) <= maxTextCharacters {
		return text
	}
	return strings.ToValidUTF8(text[:maxTextCharacters], "") + "..."
}
