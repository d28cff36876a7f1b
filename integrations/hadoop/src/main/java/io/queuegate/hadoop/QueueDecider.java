package io.queuegate.hadoop;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/**
 * Decides the ResourceManager's questions with the gate, or else with the fallback.
 *
 * <p>The ResourceManager asks under its scheduler's lock, and an exception would end it. So a decision
 * throws nothing, and never waits, except for a user's groups on threads that the caller permits to wait.
 */
final class QueueDecider {
  /** How long a user's checks do not wait after one has waited in vain: a call may cause thousands. */
  private static final long PAUSE_NANOS = TimeUnit.SECONDS.toNanos(5);
  private static final int MAX_PAUSES = 10_000;

  private final QueueGate gate;
  private final Fallback fallback;
  private final long groupMillis;
  private final Counters counters;
  /** The users for whom a check waited in vain, with the times. */
  private final Map<String, Long> pauses = new ConcurrentHashMap<>();

  /**
   * @param groupMillis how long a thread that may wait waits for a user's groups, in milliseconds
   */
  QueueDecider(QueueGate gate, Fallback fallback, long groupMillis, Counters counters) {
    this.gate = gate;
    this.fallback = fallback;
    this.groupMillis = groupMillis;
    this.counters = counters;
  }

  /**
   * Returns whether access is granted.
   *
   * @param mayWait whether this thread may wait for the user's groups
   * @param yarn what YARN's own ACLs say, for {@link Fallback#YARN_ACL}
   */
  boolean allows(QueueCheck check, boolean mayWait, BooleanSupplier yarn) {
    try {
      Answer answer = ask(check, mayWait);
      counters.answered(answer);
      if (answer.isDecision()) {
        return answer.isAllowed();
      }
    } catch (Throwable error) {
      counters.failed("a decision of the gate", error);
    }
    return fallBack(check.queue, mayWait, yarn);
  }

  /** Returns the fallback's decision, and counts it. */
  boolean fallBack(String queue, boolean mayWait, BooleanSupplier yarn) {
    counters.fellBack(queue);
    try {
      return fallback == Fallback.YARN_ACL
        && ServerGroups.decision(yarn, mayWait);
    } catch (Throwable error) {
      counters.failed("a fallback", error);
      return false;
    }
  }

  private Answer ask(QueueCheck check, boolean mayWait) {
    Answer answer = gate.decide(check);
    if (answer != Answer.GROUPS_UNKNOWN || !mayWait || groupMillis == 0 || isPaused(check.user)) {
      return answer;
    }
    counters.waited();
    try {
      gate.awaitGroups(check.user, groupMillis);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
    answer = gate.decide(check);
    if (answer == Answer.GROUPS_UNKNOWN) {
      if (pauses.size() >= MAX_PAUSES) {
        pauses.clear();
      }
      pauses.put(check.user, System.nanoTime());
    }
    return answer;
  }

  private boolean isPaused(String user) {
    Long since = pauses.get(user);
    if (since == null) {
      return false;
    }
    if (System.nanoTime() - since < PAUSE_NANOS) {
      return true;
    }
    pauses.remove(user, since);
    return false;
  }
}
