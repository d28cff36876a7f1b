package io.queuegate.internal;

import com.google.protobuf.ByteString;
import io.queuegate.v1.PolicyPart;
import io.queuegate.v1.ResolveOutcome;
import io.queuegate.v1.SyncOpened;
import io.queuegate.v1.SyncResponse;
import io.queuegate.v1.UserGroups;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Checks messages from the server against the bounds. A gate trusts its server, but the server may be
 * faulty or replaced by another program.
 */
final class MessageChecks {
  private MessageChecks() {}

  static void check(SyncResponse response) throws ProtocolFault {
    switch (response.getMessageCase()) {
      case OPENED:
        checkOpened(response.getOpened());
        break;
      case POLICY:
        checkPart(response.getPolicy());
        break;
      case FORGET:
        checkCount("forget.users", response.getForget().getUsersCount(), Bounds.MAX_FORGOTTEN);
        break;
      case CHECKPOINT:
        checkBytes(
            "checkpoint.fleet_cursor.epoch",
            response.getCheckpoint().getFleetCursor().getEpoch(),
            Bounds.MAX_DIGEST_BYTES);
        break;
      default:
        break;
    }
  }

  /**
   * Returns whether a gate can use the groups of a user. If not, the user's checks go to the server: a
   * single user with too many groups must not close the stream.
   */
  static boolean hasUsableGroups(UserGroups given) {
    if (given.getOutcome() == ResolveOutcome.RESOLVE_OUTCOME_NOT_FOUND) {
      return true;
    }
    if (given.getOutcome() != ResolveOutcome.RESOLVE_OUTCOME_RESOLVED
        || given.getGroupsCount() > Bounds.MAX_GROUPS_OF_USER) {
      return false;
    }
    for (int i = 0; i < given.getGroupsCount(); i++) {
      if (given.getGroupsBytes(i).size() > Bounds.MAX_NAME_BYTES) {
        return false;
      }
    }
    return true;
  }

  private static void checkOpened(SyncOpened opened) throws ProtocolFault {
    long lease = millis(opened.getLeaseMillis());
    long interval = millis(opened.getPingIntervalMillis());
    if (lease == 0 || interval == 0) {
      throw new ProtocolFault("`opened` must have a lease and a ping interval");
    }
    if (lease > Bounds.MAX_LEASE) {
      throw new ProtocolFault("`opened` has a lease of " + inMillis(lease) + "; the longest is "
          + inMillis(Bounds.MAX_LEASE));
    }
    if (interval > Bounds.MAX_PING) {
      throw new ProtocolFault("`opened` has a ping interval of " + inMillis(interval) + "; the longest is "
          + inMillis(Bounds.MAX_PING));
    }
    checkBytes("opened.epoch", opened.getEpoch(), Bounds.MAX_EPOCH_BYTES);
    checkPartitions("opened.partitions", opened.getPartitionsList());
    checkPartitions("opened.keep_groups_of", opened.getKeepGroupsOfList());
  }

  private static void checkPart(PolicyPart part) throws ProtocolFault {
    checkPartitions("policy.partition", Collections.singletonList(part.getPartition()));
    checkBytes("policy.checksum", part.getChecksum(), Bounds.MAX_DIGEST_BYTES);
    checkBytes("policy.resolver_fingerprint", part.getResolverFingerprint(), Bounds.MAX_DIGEST_BYTES);
    String policy = "the policy of \"" + part.getPartition() + "\" is ";
    if (part.getRemoved() && part.getUnchanged()) {
      throw new ProtocolFault(policy + "both removed and unchanged");
    }
    boolean hasQueues =
        part.getNamesCount() > 0
            || part.hasLevels()
            || part.hasConfiguredQueues()
            || part.hasCreatedQueues();
    if ((part.getRemoved() || part.getUnchanged()) && hasQueues) {
      throw new ProtocolFault(policy + "removed or unchanged, but has queues");
    }
    boolean isLater = !part.getFirst() && !part.getRemoved() && !part.getUnchanged();
    if (isLater && hasFieldsOfFirst(part)) {
      throw new ProtocolFault(
          "a later part of the policy of \"" + part.getPartition() + "\" has fields of the first part");
    }
  }

  private static boolean hasFieldsOfFirst(PolicyPart part) {
    return part.getRevision() != 0
        || !part.getChecksum().isEmpty()
        || part.getUseGivenGroups()
        || part.getRules() != 0
        || !part.getResolverFingerprint().isEmpty()
        || part.getNamingValue() != 0
        || part.getAmbiguousLevel() != 0;
  }

  private static void checkPartitions(String field, List<String> names) throws ProtocolFault {
    checkCount(field, names.size(), Bounds.MAX_PARTITIONS);
    for (String name : names) {
      if (name.isEmpty() || Names.utf8Length(name) > Bounds.MAX_NAME_BYTES) {
        throw new ProtocolFault(
            "`" + field + "`: a name must have 1 to " + Bounds.MAX_NAME_BYTES + " bytes");
      }
    }
  }

  private static void checkBytes(String field, ByteString value, int limit) throws ProtocolFault {
    if (value.size() > limit) {
      throw new ProtocolFault("`" + field + "` has " + value.size() + " bytes; the limit is " + limit);
    }
  }

  private static void checkCount(String field, int count, int limit) throws ProtocolFault {
    if (count > limit) {
      throw new ProtocolFault("`" + field + "` has " + count + " items; the limit is " + limit);
    }
  }

  /** Returns a duration of the contract, an unsigned number, in nanoseconds. */
  static long millis(int number) {
    return TimeUnit.MILLISECONDS.toNanos(Integer.toUnsignedLong(number));
  }

  private static String inMillis(long nanos) {
    return TimeUnit.NANOSECONDS.toMillis(nanos) + " ms";
  }
}
