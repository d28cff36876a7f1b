package io.queuegate.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.protobuf.ByteString;
import io.queuegate.Check;
import io.queuegate.Decision;
import io.queuegate.Reason;
import io.queuegate.v1.Forget;
import io.queuegate.v1.PolicyPart;
import io.queuegate.v1.ResolveOutcome;
import io.queuegate.v1.SyncCheckpoint;
import io.queuegate.v1.SyncOpened;
import io.queuegate.v1.SyncPong;
import io.queuegate.v1.SyncRequest;
import io.queuegate.v1.SyncResponse;
import io.queuegate.v1.UserGroups;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.Consumer;

/** A gate without a stream, with a stopped clock. */
final class World {
  static final long SECOND = TimeUnit.SECONDS.toNanos(1);
  static final long HOUR = 3_600 * SECOND;

  final Replica replica;
  final Wants wants = new Wants(() -> {});
  final Session session;
  final Decider decider;
  long now = HOUR;
  int changes;

  World(String... partitions) {
    this(null, partitions);
  }

  World(BiConsumer<Check, Decision> onDecision, String... partitions) {
    replica = new Replica(partitions.length > 0, () -> changes++);
    session = new Session(replica, wants, "gate", Arrays.asList(partitions), 0);
    decider = new Decider(replica, session, wants, onDecision, () -> now);
  }

  /** Processes messages, and returns the last acknowledgment. */
  SyncRequest receive(SyncResponse... responses) {
    SyncRequest last = null;
    for (SyncResponse response : responses) {
      try {
        last = session.receive(response, now);
      } catch (ProtocolFault fault) {
        throw new AssertionError(fault);
      }
    }
    return last;
  }

  /** Returns the fault of a message; null if there is none. */
  String fault(SyncResponse response) {
    try {
      session.receive(response, now);
      return null;
    } catch (ProtocolFault fault) {
      return fault.getMessage();
    }
  }

  /** Grants a lease. */
  void renew() {
    receive(pong(session.ping(now).getPing().getId()));
  }

  /** Starts a stream with policies. */
  World live(SyncResponse... policies) {
    session.open();
    receive(opened());
    receive(policies);
    receive(checkpoint(1));
    renew();
    return this;
  }

  Decision ask(String user, String queue) {
    return decider.decide(Check.of(user, queue));
  }

  /** Expects a decision with a reason, or null if only the server can decide. */
  void expect(String user, String queue, Reason reason) {
    Decision decision = ask(user, queue);
    assertEquals(reason, decision == null ? null : decision.reason(), user + " in " + queue);
  }

  /** Responds to a request for a user's groups. */
  void give(String user, long lifetime, String... groups) {
    wants.take(now);
    receive(userGroups(user, ResolveOutcome.RESOLVE_OUTCOME_RESOLVED, lifetime, groups));
  }

  List<String> taken() {
    return wants.take(now).getOrDefault("default", Collections.emptyList());
  }

  static SyncResponse opened() {
    return opened(change -> {});
  }

  static SyncResponse opened(Consumer<SyncOpened.Builder> change) {
    SyncOpened.Builder opened =
        SyncOpened.newBuilder()
            .setEpoch(ByteString.copyFromUtf8("epoch"))
            .setLeaseMillis(5_000)
            .setPingIntervalMillis(1_000)
            .setLocalDecisions(true)
            .setAssertGroups(true);
    change.accept(opened);
    return SyncResponse.newBuilder().setOpened(opened).build();
  }

  static SyncResponse pong(long id) {
    return SyncResponse.newBuilder().setPong(SyncPong.newBuilder().setId(id)).build();
  }

  static SyncResponse checkpoint(long sequence) {
    return SyncResponse.newBuilder().setCheckpoint(SyncCheckpoint.newBuilder().setSequence(sequence)).build();
  }

  static SyncResponse forget(String partition, String... users) {
    Forget forget = Forget.newBuilder().setPartition(partition).addAllUsers(Arrays.asList(users)).build();
    return SyncResponse.newBuilder().setForget(forget).build();
  }

  static SyncResponse userGroups(String user, ResolveOutcome outcome, long lifetime, String... groups) {
    UserGroups given =
        UserGroups.newBuilder()
            .setPartition("default")
            .setUser(user)
            .setOutcome(outcome)
            .setLifetimeMillis(TimeUnit.NANOSECONDS.toMillis(lifetime))
            .addAllGroups(Arrays.asList(groups))
            .build();
    return SyncResponse.newBuilder().setUserGroups(given).build();
  }

  static SyncResponse part(PolicyPart.Builder part) {
    return SyncResponse.newBuilder().setPolicy(part).build();
  }

  /** Returns a policy with a submit ACL at the root. Its checksum is the ACL. */
  static SyncResponse whole(String partition, String acl) {
    return part(complete(partition, new Policies().queue("root", acl, "").build(), acl));
  }

  static PolicyPart.Builder complete(String partition, PolicyPart.Builder tables, String checksum) {
    return tables
        .setPartition(partition)
        .setFirst(true)
        .setLast(true)
        .setUseGivenGroups(true)
        .setRules(Partition.RULES)
        .setChecksum(ByteString.copyFromUtf8(checksum))
        .setRevision(1);
  }

  static SyncResponse unchanged(String partition, String checksum, long revision) {
    return part(
        complete(partition, PolicyPart.newBuilder().setUnchanged(true), checksum).setRevision(revision));
  }

  static SyncResponse removed(String partition) {
    return part(
        PolicyPart.newBuilder().setPartition(partition).setFirst(true).setLast(true).setRemoved(true));
  }
}
