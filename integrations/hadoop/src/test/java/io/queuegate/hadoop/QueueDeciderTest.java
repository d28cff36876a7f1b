package io.queuegate.hadoop;

import static io.queuegate.hadoop.Answer.ALLOWED;
import static io.queuegate.hadoop.Answer.ALLOWED_BY_STALE_STATE;
import static io.queuegate.hadoop.Answer.DENIED;
import static io.queuegate.hadoop.Answer.DENIED_BY_STALE_STATE;
import static io.queuegate.hadoop.Answer.GROUPS_UNKNOWN;
import static io.queuegate.hadoop.Answer.UNDECIDED;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import io.queuegate.Access;
import java.io.IOException;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

class QueueDeciderTest {
  private static final QueueCheck CHECK = new QueueCheck("alice", "", "root.a", Access.SUBMIT);
  private static final BooleanSupplier YARN_ALLOWS = () -> true;
  private static final BooleanSupplier YARN_DENIES = () -> false;

  private final Counters counters = new Counters();

  private QueueDecider decider(ScriptedLink link, Fallback fallback) {
    return new QueueDecider(new ServerGroupsGate(link), fallback, 500, counters);
  }

  /** The gate's answers; whether the thread may wait; the decisions with deny and with an ACL that grants. */
  static Stream<Arguments> answers() {
    List<Answer> late = Arrays.asList(GROUPS_UNKNOWN, ALLOWED);
    List<Answer> lateDenial = Arrays.asList(GROUPS_UNKNOWN, DENIED);
    List<Answer> lostLease = Arrays.asList(GROUPS_UNKNOWN, UNDECIDED);
    return Stream.of(
        arguments(only(ALLOWED), true, true, true, 0),
        arguments(only(ALLOWED_BY_STALE_STATE), false, true, true, 0),
        arguments(only(DENIED), true, false, false, 0),
        arguments(only(DENIED_BY_STALE_STATE), false, false, false, 0),
        arguments(only(UNDECIDED), true, false, true, 0),
        arguments(only(GROUPS_UNKNOWN), false, false, true, 0),
        arguments(only(GROUPS_UNKNOWN), true, false, true, 1),
        arguments(late, true, true, true, 1),
        arguments(late, false, false, true, 0),
        arguments(lateDenial, true, false, false, 1),
        arguments(lostLease, true, false, true, 1));
  }

  private static List<Answer> only(Answer answer) {
    return Collections.singletonList(answer);
  }

  @ParameterizedTest
  @MethodSource("answers")
  void decides(List<Answer> answers, boolean mayWait, boolean withDeny, boolean withAcl, int waits) {
    ScriptedLink first = ScriptedLink.answering(answers.toArray(new Answer[0]));
    assertEquals(withDeny, decider(first, Fallback.DENY).allows(CHECK, mayWait, YARN_ALLOWS));
    assertEquals(waits, first.waits.size());
    ScriptedLink second = ScriptedLink.answering(answers.toArray(new Answer[0]));
    assertEquals(withAcl, decider(second, Fallback.YARN_ACL).allows(CHECK, mayWait, YARN_ALLOWS));
    ScriptedLink third = ScriptedLink.answering(answers.toArray(new Answer[0]));
    assertEquals(withDeny, decider(third, Fallback.YARN_ACL).allows(CHECK, mayWait, YARN_DENIES));
  }

  static Stream<Throwable> errors() {
    return Stream.of(
        new IllegalStateException("planted"), new StackOverflowError(), new OutOfMemoryError(),
        new NoClassDefFoundError("Planted"), new IOException("planted"), new ThreadDeath());
  }

  @ParameterizedTest
  @MethodSource("errors")
  void throwsNothing(Throwable error) {
    ScriptedLink link = ScriptedLink.answering(ALLOWED);
    link.error = error;
    assertFalse(decider(link, Fallback.DENY).allows(CHECK, true, YARN_ALLOWS));
    assertTrue(decider(link, Fallback.YARN_ACL).allows(CHECK, true, YARN_ALLOWS));
    assertEquals(2, counters.failures.sum());
    assertEquals(2, counters.fallbacks.get("root.a").sum());
    link.error = null;
    assertTrue(decider(link, Fallback.DENY).allows(CHECK, true, YARN_DENIES));
  }

  @Test
  void aFallbackThatThrowsDenies() {
    BooleanSupplier broken = () -> {
      throw new IllegalStateException("planted");
    };
    QueueDecider decider = decider(ScriptedLink.answering(UNDECIDED), Fallback.YARN_ACL);
    assertFalse(decider.allows(CHECK, false, broken));
    assertEquals(1, counters.failures.sum());
  }

  @Test
  void anInterruptEndsTheWaitAndIsKept() {
    QueueDecider decider = decider(ScriptedLink.answering(GROUPS_UNKNOWN), Fallback.DENY);
    Thread.currentThread().interrupt();
    assertFalse(decider.allows(CHECK, true, YARN_ALLOWS));
    assertTrue(Thread.interrupted());
    assertEquals(0, counters.failures.sum());
  }

  @Test
  void aUserIsNotWaitedForAgainAtOnce() {
    ScriptedLink link = ScriptedLink.answering(GROUPS_UNKNOWN);
    QueueDecider decider = decider(link, Fallback.DENY);
    QueueCheck other = new QueueCheck("bob", "", "root.a", Access.SUBMIT);
    for (int i = 0; i < 1000; i++) {
      decider.allows(CHECK, true, YARN_ALLOWS);
      decider.allows(other, true, YARN_ALLOWS);
    }
    assertEquals(Arrays.asList("alice 500", "bob 500"), link.waits);
  }

  @ParameterizedTest
  @EnumSource(Answer.class)
  void countsEachAnswer(Answer answer) {
    decider(ScriptedLink.answering(answer), Fallback.DENY).allows(CHECK, false, YARN_ALLOWS);
    counters.answers.forEach((each, count) -> assertEquals(each == answer ? 1 : 0, count.sum()));
    assertEquals(answer.isDecision() ? 0 : 1, counters.fallbacks.size());
  }

  @Test
  void namesOfQueuesAreEscapedAndBoundedInMetrics() {
    QueueDecider decider = decider(ScriptedLink.answering(UNDECIDED), Fallback.DENY);
    String name = "root.\n" + String.join("", Collections.nCopies(2_000, "x"));
    for (int i = 0; i < 2; i++) {
      decider.allows(new QueueCheck("alice", "", name, Access.SUBMIT), false, YARN_ALLOWS);
    }
    assertEquals(1, counters.fallbacks.size());
    String counted = counters.fallbacks.keySet().iterator().next();
    assertTrue(counted.startsWith("root.\\u000ax") && counted.length() < 1_100, counted);
    assertEquals(2, counters.fallbacks.get(counted).sum());
  }

  @Test
  void countsFallbacksOfABoundedNumberOfQueues() {
    QueueDecider decider = decider(ScriptedLink.answering(UNDECIDED), Fallback.DENY);
    for (int i = 0; i < 2 * Counters.MAX_QUEUES; i++) {
      decider.allows(new QueueCheck("alice", "", "root.q" + i, Access.SUBMIT), false, YARN_ALLOWS);
    }
    assertEquals(Counters.MAX_QUEUES + 1, counters.fallbacks.size());
    assertEquals(Counters.MAX_QUEUES, counters.fallbacks.get(Counters.OTHER_QUEUES).sum());
  }
}
