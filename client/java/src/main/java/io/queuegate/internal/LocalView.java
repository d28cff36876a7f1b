package io.queuegate.internal;

import io.grpc.Status;
import io.queuegate.Check;
import io.queuegate.Decision;
import io.queuegate.LocalGate;
import io.queuegate.v1.GateCounts;
import io.queuegate.v1.SyncOpened;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/** Reads the state of a gate without waiting. */
final class LocalView implements LocalGate {
  /** After how long without an answer to a ping, other answers are not awaited either. */
  static final long SILENCE = TimeUnit.MILLISECONDS.toNanos(500);

  private final Replica replica;
  private final Wants wants;
  private final Decider decider;
  private final LongSupplier clock;
  private volatile boolean isAccepted; // by a server, on the current or last stream
  private volatile boolean hasPolicies; // a pong followed them
  private volatile List<String> partitions = Collections.emptyList(); // of the server
  private volatile Status.Code lastFailure;
  private volatile LongSupplier fallbacks; // null if nobody counts them

  LocalView(Replica replica, Wants wants, Decider decider, LongSupplier clock) {
    this.replica = replica;
    this.wants = wants;
    this.decider = decider;
    this.clock = clock;
  }

  /** Notes that a server has accepted a stream. */
  void noteOpened(SyncOpened opened) {
    List<String> all = opened.getPartitionsList();
    partitions =
        Collections.unmodifiableList(
            new ArrayList<>(all.subList(0, Math.min(all.size(), LogText.MAX_LISTED + 1))));
    isAccepted = true;
    hasPolicies = false;
    lastFailure = null;
  }

  /** Notes that the server has sent the policies that it has for this gate. */
  void notePong() {
    hasPolicies = isAccepted;
  }

  /** Notes the end of a stream. */
  void noteEnd(Status.Code code) {
    isAccepted = false;
    hasPolicies = false;
    lastFailure = code;
  }

  @Override
  public Decision checkWithoutGroups(Check question) {
    return decider.decideWithoutGroups(question);
  }

  @Override
  public List<String> groups(String partition, String user) {
    Replica.State from = replica.state();
    Replica.PartitionPolicy local = replica.find(from, partition);
    if (local == null || !Names.isPlain(user)) {
      return null;
    }
    Users.Entry entry = replica.users.find(local.name, user);
    if (entry == null) {
      wants.add(new Users.Key(local.name, user), clock.getAsLong());
      return null;
    }
    if (!decider.isCovered(from, entry)) {
      return null;
    }
    return entry.exists ? entry.groups : Collections.<String>emptyList();
  }

  @Override
  public boolean awaitsGroups(String partition, String user) {
    Replica.PartitionPolicy local = replica.find(replica.state(), partition);
    return local != null
        && wants.isPending(new Users.Key(local.name, user))
        && clock.getAsLong() - decider.unansweredSince() < SILENCE;
  }

  @Override
  public void onInvalidation(String partition, Consumer<String> invalidate) {
    replica.users.onInvalidation(partition, invalidate);
  }

  @Override
  public Rights rights(String partition) {
    if (!hasPolicies) {
      return null;
    }
    Replica.State now = replica.state();
    Replica.PartitionPolicy policy = now.policies.get(partition);
    return new Rights(
        now.rights.decide,
        now.rights.assertGroups && (policy == null || policy.useGivenGroups),
        policy != null,
        policy != null && policy.partition != null);
  }

  @Override
  public List<String> partitions() {
    return partitions;
  }

  @Override
  public void countFallbacks(LongSupplier fallbacks) {
    this.fallbacks = fallbacks;
  }

  /** Returns the numbers of decisions of the gate and of its caller. */
  GateCounts counts() {
    GateCounts.Builder counts =
        GateCounts.newBuilder().setDecided(decider.decided()).setStale(decider.decidedStale());
    LongSupplier current = fallbacks;
    try {
      return (current == null ? counts : counts.setFallbacks(current.getAsLong())).build();
    } catch (RuntimeException ofTheCaller) { // which must not end the lease
      return counts.build();
    }
  }

  @Override
  public long policyAgeMillis() {
    long confirmedAt = decider.confirmedAt();
    long now = clock.getAsLong();
    boolean isKnown = confirmedAt != Clock.NEVER && now < Clock.FOREVER && !replica.state().policies.isEmpty();
    return isKnown ? TimeUnit.NANOSECONDS.toMillis(now - confirmedAt) : -1;
  }

  @Override
  public long revision(String partition) {
    Replica.PartitionPolicy policy = replica.state().policies.get(partition);
    return policy == null ? 0 : policy.revision;
  }

  @Override
  public Status.Code lastFailure() {
    return lastFailure;
  }
}
