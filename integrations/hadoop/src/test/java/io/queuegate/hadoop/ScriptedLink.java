package io.queuegate.hadoop;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/** A connection whose gate answers as a test says, and that records what it was asked. */
final class ScriptedLink implements GateLink {
  /** The next answers; the last one is repeated. */
  final Deque<Answer> answers = new ArrayDeque<>();
  /** The questions, as {@code user/realUser queue access groups}. */
  final List<String> questions = new ArrayList<>();
  /** The users whose groups were waited for. */
  final List<String> waits = new ArrayList<>();
  final Map<String, List<String>> groups = new HashMap<>();
  /** The groups that arrive while somebody waits. */
  final Map<String, List<String>> lateGroups = new HashMap<>();
  Consumer<String> invalidate = user -> { };
  /** Thrown by each question. */
  Throwable error;
  /** Thrown by each look-up of a user. */
  Throwable errorOfGroups;
  String errorUser;
  /** What happens during each look-up of a user. */
  Runnable meanwhile = () -> { };
  int lookups;
  boolean isLive = true;
  LongSupplier fallbacks;
  String fault;
  String faultOfStatedGroups;

  static ScriptedLink answering(Answer... answers) {
    ScriptedLink link = new ScriptedLink();
    for (Answer answer : answers) {
      link.answers.add(answer);
    }
    return link;
  }

  @Override
  public synchronized Answer decide(QueueCheck check, List<String> known) {
    questions.add(check.user + "/" + check.realUser + " " + check.queue + " " + check.access + " " + known);
    if (error != null) {
      ScriptedLink.<RuntimeException>sneak(error);
    }
    return answers.size() > 1 ? answers.remove() : answers.peek();
  }

  @Override
  public Answer decideWithServerGroups(QueueCheck check) {
    return decide(check, groups.get(check.user));
  }

  @Override
  public List<String> groups(String user) {
    lookups++;
    meanwhile.run();
    if (errorOfGroups != null && user.equals(errorUser)) {
      ScriptedLink.<RuntimeException>sneak(errorOfGroups);
    }
    return groups.get(user);
  }

  @Override
  public void awaitGroups(String user, long millis) throws InterruptedException {
    if (Thread.interrupted()) {
      throw new InterruptedException();
    }
    waits.add(user + " " + millis);
    groups.putAll(lateGroups);
  }

  @Override
  public void onInvalidation(Consumer<String> listener) {
    invalidate = listener;
  }

  @Override
  public boolean isConnected() {
    return isLive;
  }

  @Override
  public boolean isLive() {
    return isLive;
  }

  @Override
  public String state() {
    return isLive ? "live" : "connecting";
  }

  @Override
  public void countFallbacks(LongSupplier counted) {
    fallbacks = counted;
  }

  @Override
  public long policyAgeMillis() {
    return 8;
  }

  @Override
  public long revision() {
    return 7;
  }

  @Override
  public String faultOfGroups() {
    return fault;
  }

  @Override
  public String fault(boolean statesGroups) {
    return statesGroups && faultOfStatedGroups != null ? faultOfStatedGroups : fault;
  }

  @Override
  public void close() {
    isLive = false;
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> void sneak(Throwable error) throws E {
    throw (E) error;
  }
}
