package io.queuegate.hadoop;

import io.queuegate.internal.LogText;
import java.util.EnumMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Counts the authorizer's answers, fallbacks and errors, and logs them once a minute. Throws nothing. */
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
  private volatile Supplier<String> gate = () -> "not open";
  private final AtomicLong lastFallbackLog = new AtomicLong(System.nanoTime() - MINUTE_NANOS);
  private final AtomicLong lastStaleLog = new AtomicLong(System.nanoTime() - MINUTE_NANOS);
  private final AtomicLong lastFailureLog = new AtomicLong(System.nanoTime() - MINUTE_NANOS);

  Counters() {
    for (Answer answer : Answer.values()) {
      answers.put(answer, new LongAdder());
    }
  }

  /** Sets a description of the gate for the log: its state, and the remedy for a fault. */
  void describeGate(Supplier<String> described) {
    gate = described;
  }

  void answered(Answer answer) {
    quietly(() -> {
      answers.get(answer).increment();
      if (answer.isStale() && isDue(lastStaleLog)) {
        LOG.warn("The gate's lease has expired; it decides from its last state ({}).", Key.STALE.text);
      }
    });
  }

  /** Returns the number of questions that the fallback decided. */
  long allFallbacks() {
    return fallbacks.values().stream().mapToLong(LongAdder::sum).sum();
  }

  void waited() {
    quietly(waits::increment);
  }

  void fellBack(String queue) {
    quietly(() -> {
      LongAdder count = fallbacks.get(queue);
      if (count == null) {
        // Users choose names of queues, and sinks write names without escapes.
        String name = fallbacks.size() < MAX_QUEUES ? LogText.ofOthers(queue) : OTHER_QUEUES;
        count = fallbacks.computeIfAbsent(name, missing -> new LongAdder());
      }
      count.increment();
      if (isDue(lastFallbackLog)) {
        LOG.warn("A decision on the queue {} fell back (gate: {}). So far, {} had no lease or needed the server, "
          + "{} lacked groups, and {} errors occurred.", LogText.ofOthers(queue), gate.get(),
          answers.get(Answer.UNDECIDED), answers.get(Answer.GROUPS_UNKNOWN), failures);
      }
    });
  }

  /** Counts an error that must not reach the ResourceManager. */
  void failed(String what, Throwable error) {
    quietly(() -> {
      failures.increment();
      if (isDue(lastFailureLog)) {
        LOG.error("An error ended {}; {} errors so far.", what, failures, error);
      }
    });
  }

  /** Counts and logs, and ignores errors such as a lack of memory, on which no decision may depend. */
  private static void quietly(Runnable count) {
    try {
      count.run();
    } catch (Throwable lost) {
      // The error cannot be logged.
    }
  }

  private static boolean isDue(AtomicLong last) {
    long now = System.nanoTime();
    long before = last.get();
    return now - before >= MINUTE_NANOS && last.compareAndSet(before, now);
  }
}
