package io.queuegate.internal;

import com.google.protobuf.ByteString;
import io.queuegate.v1.PolicyPart;
import io.queuegate.v1.QueueNaming;
import java.util.Collection;
import java.util.Collections;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/**
 * A gate's copy of the policies and of users' groups. Any thread may read {@link #state} and {@link
 * #users}; only the session's lock holder changes them.
 */
final class Replica {
  private static final Set<QueueNaming> NAMINGS =
      EnumSet.of(
          QueueNaming.QUEUE_NAMING_YUNIKORN,
          QueueNaming.QUEUE_NAMING_YUNIKORN_ANY_USER,
          QueueNaming.QUEUE_NAMING_YARN,
          QueueNaming.QUEUE_NAMING_YARN_SHORT_NAMES);
  private static final long[] LIMITS = {
    Bounds.MAX_QUEUES,
    Bounds.MAX_QUEUES,
    Bounds.MAX_NAMES,
    Bounds.MAX_LEVELS,
    Bounds.MAX_LISTED,
    Bounds.MAX_POLICY_BYTES,
    Bounds.MAX_PATHS_BYTES,
  };
  private static final String[] UNITS = {
    "queues", "created queues", "names", "levels", "names in levels", "bytes", "bytes in queue paths",
  };

  final Users users = new Users();
  private final boolean isPartial; // whether the gate follows only some partitions
  private final Runnable onPolicy;
  private volatile State state =
      new State(0, Collections.<String, PartitionPolicy>emptyMap(), new Rights(false, false));

  private final Map<String, PartitionPolicy> held = new HashMap<>(); // including unconfirmed ones
  private final long[] heldSize = new long[LIMITS.length];
  private PolicyPart.Builder parts; // the merged parts of the incomplete policy
  private long[] partSize;
  private boolean isReadable; // whether the gate supports the rules of the incomplete policy

  /** A gate's rights, as set by the server. */
  static final class Rights {
    final boolean decide;
    final boolean assertGroups; // whether the gate may use groups given in a question

    Rights(boolean decide, boolean assertGroups) {
      this.decide = decide;
      this.assertGroups = assertGroups;
    }
  }

  /** The policy of a partition. Immutable. */
  static final class PartitionPolicy {
    final String name;
    final Partition partition; // null if the gate does not support its rules
    final ByteString checksum;
    final long revision;
    final boolean useGivenGroups;
    final ByteString resolverFingerprint; // identifies the resolver's settings
    private final long[] size;

    private PartitionPolicy(PolicyPart sent, ByteString checksum, Partition partition, long[] size) {
      this.name = sent.getPartition();
      this.partition = partition;
      this.checksum = checksum;
      this.revision = sent.getRevision();
      this.useGivenGroups = sent.getUseGivenGroups();
      this.resolverFingerprint = sent.getResolverFingerprint();
      this.size = size;
    }
  }

  /**
   * The policies and rights that decisions depend on. Immutable: each update replaces it, and a decision
   * is valid if its state is still current afterwards.
   */
  static final class State {
    final long generation;
    final Map<String, PartitionPolicy> policies;
    final Rights rights;

    private State(long generation, Map<String, PartitionPolicy> policies, Rights rights) {
      this.generation = generation;
      this.policies = policies;
      this.rights = rights;
    }
  }

  Replica(boolean isPartial, Runnable onPolicy) {
    this.isPartial = isPartial;
    this.onPolicy = onPolicy;
  }

  State state() {
    return state;
  }

  Collection<PartitionPolicy> held() {
    return held.values();
  }

  /** Returns the partition whose policy is incomplete; null if none. */
  String incomplete() {
    return parts == null ? null : parts.getPartition();
  }

  /**
   * Returns the policy of a requested partition, if this gate supports its rules; else null. The exact
   * name takes precedence over the name without a resource manager ID, which is not used if the server
   * may have a partition with the exact name that this replica does not follow.
   */
  PartitionPolicy find(State from, String name) {
    PartitionPolicy local = from.policies.get(name);
    if (local == null && (name.isEmpty() || !isPartial)) {
      local = from.policies.get(Names.partition(name));
    }
    return local == null || local.partition == null ? null : local;
  }

  /** Sets the rights. */
  void allow(Rights given) {
    Rights now = state.rights;
    if (now.decide != given.decide || now.assertGroups != given.assertGroups) {
      replace(state.policies, given);
    }
  }

  /**
   * Drops all groups outside the given partitions, and stops using policies until the server confirms
   * them.
   */
  void reset(Collection<String> keepGroupsOf) {
    replace(Collections.<String, PartitionPolicy>emptyMap(), state.rights);
    users.dropAllBut(keepGroupsOf);
  }

  void dropParts() {
    parts = null;
  }

  void dropHeld() {
    parts = null;
    for (String name : held.keySet().toArray(new String[0])) {
      drop(name);
    }
  }

  /** Adds a part of a policy, which takes effect once complete. */
  void add(PolicyPart part) throws ProtocolFault {
    String name = part.getPartition();
    if (part.getRemoved()) {
      parts = null;
      drop(name);
      change(name, null);
      return;
    }
    if (part.getUnchanged()) {
      parts = null;
      PartitionPolicy known = held.get(name);
      if (known == null || !known.checksum.equals(part.getChecksum())) {
        throw new ProtocolFault(
            "the policy of \"" + name + "\" was sent as unchanged, but this gate does not have it");
      }
      decideFrom(new PartitionPolicy(part, known.checksum, known.partition, known.size));
      return;
    }
    if (part.getFirst()) {
      parts = PolicyPart.newBuilder();
      partSize = new long[LIMITS.length];
      isReadable = part.getRules() == Partition.RULES && NAMINGS.contains(part.getNaming());
    } else if (parts == null || !parts.getPartition().equals(name)) {
      throw new ProtocolFault("the first part of a policy is missing");
    }
    count(
        name,
        part.getConfiguredQueues().getNameCount(),
        part.getCreatedQueues().getNameCount(),
        part.getNamesCount(),
        part.getLevels().getAboveCount(),
        part.getLevels().getListedCount(),
        part.getSerializedSize(),
        0);
    try {
      if (isReadable) {
        Tables.checkRows(parts, part);
      }
      parts.mergeFrom(part);
      if (part.getLast()) {
        complete(parts.build());
      }
    } catch (ProtocolFault fault) {
      throw new ProtocolFault("the policy of \"" + name + "\": " + fault.getMessage());
    }
  }

  private void complete(PolicyPart sent) throws ProtocolFault {
    parts = null;
    Partition partition = null;
    if (isReadable) {
      Tables.Read read = Tables.read(sent);
      count(sent.getPartition(), 0, 0, 0, 0, 0, 0, read.pathBytes);
      partition = read.partition;
    }
    decideFrom(new PartitionPolicy(sent, sent.getChecksum(), partition, partSize));
  }

  /** Adds to the size of the incomplete policy, in the units of {@link #LIMITS}. */
  private void count(String name, long... more) throws ProtocolFault {
    PartitionPolicy known = held.get(name);
    if (known == null && held.size() >= Bounds.MAX_PARTITIONS) {
      throw new ProtocolFault("there are more than " + Bounds.MAX_PARTITIONS + " partitions");
    }
    for (int i = 0; i < LIMITS.length; i++) {
      partSize[i] += more[i];
      long together = heldSize[i] + partSize[i] - (known == null ? 0 : known.size[i]);
      if (together > LIMITS[i]) {
        throw new ProtocolFault("the policies have more than " + LIMITS[i] + " " + UNITS[i]);
      }
    }
  }

  private void drop(String name) {
    PartitionPolicy known = held.remove(name);
    for (int i = 0; known != null && i < LIMITS.length; i++) {
      heldSize[i] -= known.size[i];
    }
  }

  private void decideFrom(PartitionPolicy next) {
    drop(next.name);
    held.put(next.name, next);
    for (int i = 0; i < LIMITS.length; i++) {
      heldSize[i] += next.size[i];
    }
    change(next.name, next);
    onPolicy.run();
  }

  /** Replaces or removes the policy of a partition. */
  private void change(String name, PartitionPolicy next) {
    Map<String, PartitionPolicy> policies = new HashMap<>(state.policies);
    if (next == null) {
      policies.remove(name);
    } else {
      policies.put(name, next);
    }
    replace(policies, state.rights);
  }

  private void replace(Map<String, PartitionPolicy> policies, Rights rights) {
    state = new State(state.generation + 1, policies, rights);
  }
}
