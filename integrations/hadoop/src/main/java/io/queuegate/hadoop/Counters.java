package io.queuegate.hadoop;

import java.util.EnumMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Counts what the authorizer did, and logs what administrators must know, once a minute. */
final class Counters {
  /** The number of queues whose fallbacks are counted one by one. */
  static final int MAX_QUEUES = 1000;
  /** The name under which the fallbacks of all further queues are counted. */
  static final String OTHER_QUEUES = "(others)";

  private static final Logger LOG = LoggerFactory.getLogger(QueuegateYarnAuthorizer.class);
  private static final long MINUTE_NANOS = 60_000_000_000L;

  final Map<Answer, LongAdder> answers = new EnumMap<>(Answer.class);
  final Map<String, LongAdder> fallbacks = new ConcurrentHashMap<>();
  final LongAdder waits = new LongAdder();
  final LongAdder failures = new LongAdder();
  private final AtomicLong lastFallbackLog = new AtomicLong(System.nanoTime() - MINUTE_NANOS);
  private final AtomicLong lastStaleLog = new AtomicLong(System.nanoTime() - MINUTE_NANOS);
  private final AtomicLong lastFailureLog = new AtomicLong(System.nanoTime() - MINUTE_NANOS);

  Counters() {
    for (Answer answer : Answer.values()) {
      answers.put(answer, new LongAdder());
    }
  }

  void answered(Answer answer) {
    answers.get(answer).increment();
    if (answer.isStale() && isDue(lastStaleLog)) {
      LOG.warn("The lease of the policy has expired; decisions use the last state (queuegate.stale).");
    }
  }

  void waited() {
    waits.increment();
  }

  void fellBack(String queue) {
    LongAdder count = fallbacks.get(queue);
    if (count == null) {
      String name = fallbacks.size() < MAX_QUEUES ? queue : OTHER_QUEUES;
      count = fallbacks.computeIfAbsent(name, missing -> new LongAdder());
    }
    count.increment();
    if (isDue(lastFallbackLog)) {
      LOG.warn("A decision on the queue {} fell back: {} so far had no lease, {} lacked groups, {} failed.",
        Text.escaped(queue), answers.get(Answer.UNDECIDED), answers.get(Answer.GROUPS_UNKNOWN), failures);
    }
  }

  /** Counts an error that must not reach the ResourceManager. */
  void failed(String what, Throwable error) {
    failures.increment();
    try {
      if (isDue(lastFailureLog)) {
        LOG.error("An error ended {}; {} errors so far.", what, failures, error);
      }
    } catch (Throwable ignored) {
      // For example, no memory to log with. The count has it.
    }
  }

  private static boolean isDue(AtomicLong last) {
    long now = System.nanoTime();
    long before = last.get();
    return now - before >= MINUTE_NANOS && last.compareAndSet(before, now);
  }
}
