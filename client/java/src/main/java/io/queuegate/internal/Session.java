package io.queuegate.internal;

import com.google.protobuf.ByteString;
import io.queuegate.v1.Cursor;
import io.queuegate.v1.GateCounts;
import io.queuegate.v1.HeldPolicy;
import io.queuegate.v1.PolicyPart;
import io.queuegate.v1.ResolveOutcome;
import io.queuegate.v1.SyncApplied;
import io.queuegate.v1.SyncCheckpoint;
import io.queuegate.v1.SyncOpen;
import io.queuegate.v1.SyncOpened;
import io.queuegate.v1.SyncPing;
import io.queuegate.v1.SyncRelease;
import io.queuegate.v1.SyncRequest;
import io.queuegate.v1.SyncResponse;
import io.queuegate.v1.UserGroups;
import java.security.SecureRandom;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * A gate's side of the protocol, across all its streams: its lease, and the state that it may decide
 * from. It takes messages and times, and returns messages. sync.proto defines the rules. Not safe for
 * concurrent use, except for {@link #leaseUntil}.
 */
final class Session {
  /** The maximum number of pings in flight. All but the latest few are too old to grant a lease. */
  static final int MAX_PINGS = 32;

  private static final int INSTANCE_BYTES = 16;

  private final Replica replica;
  private final Wants wants;
  private final String name;
  private final List<String> partitions;
  private final long clockError; // by how much the clock may lag
  private final ByteString instance; // identifies this gate across its streams

  private long staleMillis; // how long the gate may use its last state after its lease
  private String agent = "";
  private Supplier<GateCounts> counts = GateCounts::getDefaultInstance;

  private volatile long leaseUntil = Clock.NEVER;
  private volatile long confirmedAt = Clock.NEVER; // when the lease started
  private volatile long unansweredSince = Clock.FOREVER; // when the oldest ping in flight was sent
  private long pingInterval = TimeUnit.SECONDS.toNanos(1);
  private boolean isOpen; // whether the server has accepted the stream
  private long lease;
  private ByteString epoch; // null if there is no position to resume
  private ByteString announced = ByteString.EMPTY; // resumable after the stream's first checkpoint
  private long applied; // the position of the last checkpoint
  private Cursor fleetCursor; // of the last checkpoint; null if none
  private long lastPing;
  private final Deque<long[]> pings = new ArrayDeque<>(); // the ID and time of each in flight, oldest first

  Session(Replica replica, Wants wants, String name, List<String> partitions, long clockError) {
    this.replica = replica;
    this.wants = wants;
    this.name = name;
    this.partitions = partitions;
    this.clockError = clockError;
    byte[] random = new byte[INSTANCE_BYTES];
    new SecureRandom().nextBytes(random);
    instance = ByteString.copyFrom(random);
  }

  /**
   * Sets what the gate says about itself on its streams.
   *
   * @param stale how long it may use its last state after its lease, in nanoseconds
   * @param agent its program and version
   * @param counts returns the numbers of its decisions
   */
  void introduce(long stale, String agent, Supplier<GateCounts> counts) {
    staleMillis = TimeUnit.NANOSECONDS.toMillis(stale);
    if (TimeUnit.MILLISECONDS.toNanos(staleMillis) < stale) {
      staleMillis++;
    }
    this.agent = agent;
    this.counts = counts;
  }

  /** Returns when the server was last asked and confirmed the policies; {@link Clock#NEVER} if never. */
  long confirmedAt() {
    return confirmedAt;
  }

  /** Returns when the oldest ping was sent that is in flight; {@link Clock#FOREVER} if none is. */
  long unansweredSince() {
    return unansweredSince;
  }

  /** Returns when the lease expires; {@link Clock#NEVER} without a lease. */
  long leaseUntil() {
    return leaseUntil;
  }

  long pingInterval() {
    return pingInterval;
  }

  /** Resets the state of a stream, and returns the first message of a new one. */
  SyncRequest open() {
    isOpen = false;
    dropPings();
    replica.dropParts();
    wants.clear();
    SyncOpen.Builder message =
        SyncOpen.newBuilder()
            .setName(name)
            .addAllPartitions(partitions)
            .setInstance(instance)
            .setStaleMillis(staleMillis)
            .setAgent(agent)
            .addRules(Partition.RULES);
    int announcedBytes = 0;
    for (Replica.PartitionPolicy each : replica.held()) { // the server sends all others again
      announcedBytes += Names.utf8Length(each.name);
      if (announcedBytes > Bounds.MAX_ANNOUNCED_BYTES || message.getHeldCount() == Bounds.MAX_PARTITIONS) {
        break;
      }
      message.addHeld(
          HeldPolicy.newBuilder()
              .setPartition(each.name)
              .setChecksum(each.checksum)
              .setResolverFingerprint(each.resolverFingerprint));
    }
    if (epoch != null) {
      message.setResume(Cursor.newBuilder().setEpoch(epoch).setSequence(applied));
    }
    if (fleetCursor != null) {
      message.setFleetCursor(fleetCursor);
    }
    return SyncRequest.newBuilder().setOpen(message).build();
  }

  /** Returns a ping to send at or after now. */
  SyncRequest ping(long now) {
    if (pings.size() == MAX_PINGS) {
      pings.removeFirst();
    }
    pings.addLast(new long[] {++lastPing, now});
    unansweredSince = pings.getFirst()[1];
    SyncPing ping = SyncPing.newBuilder().setId(lastPing).setCounts(counts.get()).build();
    return SyncRequest.newBuilder().setPing(ping).build();
  }

  /**
   * Processes a message from the server, and returns its acknowledgment; null if none is required. After
   * a fault, the caller must drop everything.
   */
  SyncRequest receive(SyncResponse response, long now) throws ProtocolFault {
    SyncResponse.MessageCase kind = response.getMessageCase();
    if (kind == SyncResponse.MessageCase.MESSAGE_NOT_SET) {
      return null; // from a newer server
    }
    if (kind != SyncResponse.MessageCase.OPENED && !isOpen) {
      throw new ProtocolFault("the first message must be `opened`");
    }
    MessageChecks.check(response);
    boolean confirms = kind == SyncResponse.MessageCase.PONG || kind == SyncResponse.MessageCase.CHECKPOINT;
    if (confirms && replica.incomplete() != null) {
      // Either message would confirm the policy, although it is incomplete here.
      throw new ProtocolFault(
          "a pong or checkpoint came before the policy of \"" + replica.incomplete() + "\" was complete");
    }
    switch (kind) {
      case PONG:
        startLease(response.getPong().getId());
        return null;
      case OPENED:
        start(response.getOpened());
        return null;
      case POLICY:
        addPart(response.getPolicy());
        return null;
      case FORGET:
        replica.users.forget(response.getForget().getPartition(), response.getForget().getUsersList());
        return null;
      case USER_GROUPS:
        setGroups(response.getUserGroups(), now);
        return null;
      case DRAINING:
        return release(now);
      case CHECKPOINT:
        return confirm(response.getCheckpoint());
      default:
        return null;
    }
  }

  /** Gives up the stream's lease, and returns the message that releases it. */
  SyncRequest release(long now) {
    dropPings();
    leaseUntil = now < Clock.FOREVER ? Math.min(leaseUntil, now) : Clock.NEVER;
    return SyncRequest.newBuilder().setRelease(SyncRelease.getDefaultInstance()).build();
  }

  /** Gives up the lease of a gate that will not decide again, and returns the message that says so. */
  SyncRequest close(long now) {
    release(now);
    return SyncRequest.newBuilder().setRelease(SyncRelease.newBuilder().setClosed(true)).build();
  }

  /**
   * Gives up the lease, and stops using policies until the server confirms them, as when the server does
   * not recognize this gate's state or rejects the gate. Drops all groups outside the given partitions.
   */
  void reset(List<String> keepGroupsOf) {
    epoch = null;
    if (keepGroupsOf.isEmpty()) {
      // If groups are kept, the cursor stays valid: no groups are added before the next checkpoint.
      fleetCursor = null;
    }
    leaseUntil = Clock.NEVER;
    replica.reset(keepGroupsOf);
  }

  /** Gives up the lease and all state. The server sends the state again on the next stream. */
  void dropEverything() {
    reset(Collections.<String>emptyList());
    replica.dropHeld();
  }

  private SyncRequest confirm(SyncCheckpoint checkpoint) {
    epoch = announced;
    applied = checkpoint.getSequence();
    fleetCursor = null;
    if (checkpoint.hasFleetCursor()) {
      Cursor sent = checkpoint.getFleetCursor();
      // The cursor is sent to the next server, so drop unknown fields, which may be large.
      fleetCursor = Cursor.newBuilder().setEpoch(sent.getEpoch()).setSequence(sent.getSequence()).build();
    }
    return SyncRequest.newBuilder().setApplied(SyncApplied.newBuilder().setSequence(applied)).build();
  }

  private void addPart(PolicyPart part) throws ProtocolFault {
    if (!partitions.isEmpty() && !partitions.contains(part.getPartition())) {
      throw new ProtocolFault("this gate does not follow the partition \"" + part.getPartition() + "\"");
    }
    replica.add(part);
  }

  /** Handles the server's acceptance of a stream. */
  private void start(SyncOpened opened) throws ProtocolFault {
    if (opened.getResumed() && !opened.getEpoch().equals(epoch)) {
      throw new ProtocolFault("`opened` resumes from a position that this gate does not have");
    }
    isOpen = true;
    replica.dropParts();
    announced = opened.getEpoch();
    lease = MessageChecks.millis(opened.getLeaseMillis()) - clockError;
    pingInterval = Math.max(MessageChecks.millis(opened.getPingIntervalMillis()), Bounds.MIN_PING);
    if (!opened.getResumed()) {
      // A lease from another server does not cover this server's state.
      reset(opened.getKeepGroupsOfList());
    }
    replica.allow(new Replica.Rights(opened.getLocalDecisions(), opened.getAssertGroups()));
  }

  /** Extends the lease. It is measured from the time when the acknowledged ping was sent. */
  private void startLease(long id) {
    while (!pings.isEmpty() && Long.compareUnsigned(pings.getFirst()[0], id) <= 0) {
      long[] first = pings.removeFirst();
      // Without a readable clock, there is no time to measure from.
      if (first[0] == id && first[1] < Clock.FOREVER) {
        leaseUntil = Math.max(leaseUntil, first[1] + lease);
        confirmedAt = Math.max(confirmedAt, first[1]);
      }
    }
    unansweredSince = pings.isEmpty() ? Clock.FOREVER : pings.getFirst()[1];
  }

  private void dropPings() {
    pings.clear();
    unansweredSince = Clock.FOREVER;
  }

  /**
   * Stores a user's groups. Their lifetime starts at the request, since they may have been in transit
   * while this process was suspended.
   */
  private void setGroups(UserGroups given, long now) {
    Users.Key key = new Users.Key(given.getPartition(), given.getUser());
    long millis = given.getLifetimeMillis();
    long longest = TimeUnit.NANOSECONDS.toMillis(Bounds.MAX_LIFETIME);
    // The number is unsigned.
    long lifetime = TimeUnit.MILLISECONDS.toNanos(millis < 0 ? longest : Math.min(millis, longest));
    if (!MessageChecks.hasUsableGroups(given)) {
      wants.answer(key, now + Math.max(lifetime, Bounds.MIN_LOOKUP));
      return; // cached groups stay valid until they expire
    }
    boolean exists = given.getOutcome() == ResolveOutcome.RESOLVE_OUTCOME_RESOLVED;
    long askedAt = wants.answer(key, lifetime < Bounds.MIN_LOOKUP ? now + Bounds.MIN_LOOKUP : 0);
    if (askedAt != Clock.NEVER && askedAt < Clock.FOREVER) {
      List<String> groups = Collections.unmodifiableList(new ArrayList<>(given.getGroupsList()));
      replica.users.set(key, exists, groups, askedAt, lifetime - Math.min(clockError, lifetime));
    }
  }
}
