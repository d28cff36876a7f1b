package io.queuegate.internal;

import io.queuegate.Check;
import io.queuegate.Decision;
import io.queuegate.Reason;
import java.util.List;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.BiConsumer;
import java.util.function.LongSupplier;

/** Makes the decisions that need no call to the server. Safe for concurrent use; a decision takes no lock. */
final class Decider {
  private final Replica replica;
  private final Session session;
  private final Wants wants;
  private final Memory memory = new Memory();
  private final BiConsumer<Check, Decision> onDecision; // may be null
  private final LongSupplier clock;
  private final FailureLog failures = new FailureLog();
  private final LongAdder decided = new LongAdder();
  private final LongAdder decidedStale = new LongAdder();
  // How long the gate may decide from old state after its lease expires, in nanoseconds.
  private volatile long grace;

  Decider(
      Replica replica,
      Session session,
      Wants wants,
      BiConsumer<Check, Decision> onDecision,
      LongSupplier clock) {
    this.replica = replica;
    this.session = session;
    this.wants = wants;
    this.onDecision = onDecision;
    this.clock = clock;
  }

  void setGrace(long grace) {
    this.grace = grace;
  }

  /** Returns the number of decisions. */
  long decided() {
    return decided.sum();
  }

  /** Returns when the server last confirmed the policies; {@link Clock#NEVER} if never. */
  long confirmedAt() {
    return session.confirmedAt();
  }

  /** Returns when the oldest ping was sent that is in flight; {@link Clock#FOREVER} if none is. */
  long unansweredSince() {
    return session.unansweredSince();
  }

  /** Returns the number of decisions from old state, without a lease. */
  long decidedStale() {
    return decidedStale.sum();
  }

  /** Returns the decision; null if the question must be sent to the server. */
  Decision decide(Check question) {
    Replica.State from = replica.state();
    if (!from.rights.decide) {
      return null;
    }
    Memory.Memo earlier = memory.find(question, from.generation);
    if (earlier != null) {
      Decision decision = answer(from, earlier);
      if (decision != null) {
        return decision;
      }
    }
    Memory.Memo fresh = evaluate(from, question);
    if (fresh == null) {
      return null;
    }
    memory.add(fresh);
    return answer(from, fresh);
  }

  /** Returns the decision if it does not depend on the user's groups; null otherwise. */
  Decision decideWithoutGroups(Check question) {
    Replica.State from = replica.state();
    if (!from.rights.decide) {
      return null;
    }
    Memory.Memo memo = memory.find(question, from.generation);
    if (memo == null) {
      Replica.PartitionPolicy local = locate(from, question);
      Partition.Target target =
          local == null ? null : local.partition.locate(question.queue(), question.access());
      if (target == null) {
        return null;
      }
      Decision decision =
          local.partition.decide(target, question.user(), null, question.realUser(), local.revision);
      if (decision == null) {
        return null;
      }
      memo = new Memory.Memo(question, decision, from.generation, null);
      memory.add(memo);
    }
    return memo.entry == null ? answer(from, memo) : null;
  }

  /** Returns whether groups may be used now: under a lease, or in the time after it that is permitted. */
  boolean isCovered(Replica.State from, Users.Entry entry) {
    return current(from, NO_DECISION, entry) != null;
  }

  /** Returns the decision of a memo if it is valid, after passing it to the program; else null. */
  private Decision answer(Replica.State from, Memory.Memo memo) {
    Decision decision = current(from, memo.decision, memo.entry);
    if (decision != null && onDecision != null) {
      tell(memo.question, decision);
      decision = current(from, memo.decision, memo.entry); // the program may have been slow
    }
    if (decision != null) {
      decided.increment();
      if (decision.stale()) {
        decidedStale.increment();
      }
    }
    return decision;
  }

  private void tell(Check question, Decision decision) {
    try {
      onDecision.accept(question, decision);
    } catch (Throwable fault) { // which must not change the decision
      failures.note("The listener of a gate's decisions has failed.", fault);
    }
  }

  /** Returns a decision if its state is still current and covered by a lease; else null. */
  private Decision current(Replica.State from, Decision decision, Users.Entry entry) {
    long validUntil = session.leaseUntil();
    long allowance = grace;
    if (entry != null) {
      validUntil = Math.min(validUntil, entry.expiresAt());
    }
    if (replica.state() != from) {
      return null;
    }
    // The clock is read last, since this process may have been suspended.
    long now = clock.getAsLong();
    if (entry != null && entry.isDue(now)) {
      wants.add(entry.key, now);
    }
    if (now < validUntil) {
      return decision;
    }
    if (now >= validUntil + allowance) {
      return null;
    }
    return new Decision(
        decision.allowed(),
        decision.reason(),
        decision.matchedQueue(),
        decision.matchedSubject(),
        decision.policyRevision(),
        decision.evaluatedQueue(),
        true);
  }

  /** Decides from a state; null if the question must be sent to the server. */
  private Memory.Memo evaluate(Replica.State from, Check question) {
    Replica.PartitionPolicy local = locate(from, question);
    Partition.Target target = local == null ? null : local.partition.locate(question.queue(), question.access());
    if (target == null) {
      return null;
    }
    String user = question.user();
    String realUser = question.realUser();
    List<String> given = given(from, local, question);
    Decision decision = local.partition.decide(target, user, given, realUser, local.revision);
    Users.Entry entry = null;
    if (decision == null) {
      entry = entry(local, user);
      if (entry == null) {
        return null;
      }
      decision =
          entry.exists
              ? local.partition.decide(target, user, entry.groups, realUser, local.revision)
              : new Decision(false, Reason.UNKNOWN_USER, "", "", local.revision, target.evaluated, false);
    }
    return new Memory.Memo(question, decision, from.generation, entry);
  }

  /**
   * Returns the queues at or below the question's queue, or all if it is empty, that its user may use;
   * null if the question must be sent to the server, as when the result would be stale.
   */
  List<String> queues(Check question) {
    Replica.State from = replica.state();
    Check asked = question.queue().isEmpty() ? rooted(question) : question;
    Replica.PartitionPolicy local = locate(from, asked);
    if (!from.rights.decide || local == null) {
      return null;
    }
    Partition.Target target = local.partition.locate(asked.queue(), asked.access());
    if (target == null) {
      return null;
    }
    List<String> given = given(from, local, asked);
    Users.Entry entry = null;
    List<String> paths =
        local.partition.usable(target, asked.access(), asked.user(), given, asked.realUser());
    if (paths == null) {
      entry = entry(local, asked.user());
      if (entry == null) {
        return null;
      }
      // An unknown user has no groups, but may use queues that list the user or everyone.
      paths =
          local.partition.usable(target, asked.access(), asked.user(), entry.groups, asked.realUser());
    }
    Decision covered = current(from, NO_DECISION, entry);
    return covered == null || covered.stale() ? null : paths;
  }

  private static final Decision NO_DECISION = new Decision(false, Reason.NO_MATCH, "", "", 0, "", false);

  private static Check rooted(Check question) {
    Check check =
        Check.of(question.user(), Names.ROOT)
            .withPartition(question.partition())
            .withAccess(question.access())
            .withRealUser(question.realUser());
    return question.groups() == null ? check : check.withGroups(question.groups());
  }

  /** Returns the policy for a question; null if the question must be sent to the server. */
  private Replica.PartitionPolicy locate(Replica.State from, Check question) {
    Replica.PartitionPolicy local = replica.find(from, question.partition());
    return local == null || !isAccepted(question, local.partition) ? null : local;
  }

  /** Returns the groups of a user. If they are missing, requests them and returns null. */
  private Users.Entry entry(Replica.PartitionPolicy local, String user) {
    Users.Entry entry = replica.users.find(local.name, user);
    if (entry == null) {
      wants.add(new Users.Key(local.name, user), clock.getAsLong());
    }
    return entry;
  }

  /** Returns the groups that a question states; null if they are not stated or not used. */
  private static List<String> given(Replica.State from, Replica.PartitionPolicy local, Check question) {
    return local.useGivenGroups && from.rights.assertGroups ? question.groups() : null;
  }

  /** Returns whether a server certainly accepts the names of a question. */
  private static boolean isAccepted(Check question, Partition partition) {
    if (!Names.isPlain(question.user())
        || !Names.isPlain(question.queue())
        || !question.partition().isEmpty() && !Names.isPlain(question.partition())
        || !question.realUser().isEmpty() && !Names.isPlain(question.realUser())) {
      return false;
    }
    List<String> groups = question.groups();
    if (groups == null) {
      return true;
    }
    if (groups.size() > Bounds.MAX_GIVEN_GROUPS) {
      return false;
    }
    for (String group : groups) {
      if (group == null || !Names.isPlain(group)) {
        return false;
      }
    }
    return partition.acceptsUser(question.user());
  }
}
