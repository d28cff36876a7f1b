package io.queuegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.queuegate.Access;
import java.io.IOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;

class ServerGroupsTest {
  private final ScriptedLink link = new ScriptedLink();
  private final ServerGroups groups = new ServerGroups(link, Duration.ofSeconds(2));

  @Test
  void copiedGroupsNeedNoWait() throws IOException {
    link.groups.put("alice", Arrays.asList("dev", "ops"));
    assertEquals(Arrays.asList("dev", "ops"), groups.of("alice"));
    assertEquals(0, link.waits.size());
  }

  @Test
  void anUnknownUserHasNoGroups() throws IOException {
    link.groups.put("nobody", Collections.emptyList());
    assertEquals(Collections.emptyList(), groups.of("nobody"));
  }

  @Test
  void waitsForGroups() throws IOException {
    link.lateGroups.put("alice", Collections.singletonList("dev"));
    assertEquals(Collections.singletonList("dev"), groups.of("alice"));
    assertEquals(Collections.singletonList("alice 2000"), link.waits);
  }

  @Test
  void aDecisionOfTheSchedulerDoesNotWait() {
    link.answers.add(Answer.UNDECIDED);
    link.lateGroups.put("alice", Collections.singletonList("dev"));
    QueueDecider decider =
        new QueueDecider(new ServerGroupsGate(link), Fallback.YARN_ACL, 500, new Counters());
    QueueCheck check = new QueueCheck("alice", "", "root.a", Access.SUBMIT);
    BooleanSupplier yarn = () -> {
      try {
        return groups.of("alice").contains("dev");
      } catch (IOException failed) {
        return false; // as Hadoop does
      }
    };
    assertFalse(decider.allows(check, false, yarn));
    assertEquals(Collections.emptyList(), link.waits);
    assertTrue(decider.allows(check, true, yarn));
  }

  private String messageOfFailure() {
    return assertThrows(IOException.class, () -> groups.of("ali\nce")).getMessage();
  }

  @Test
  void aFailureSaysWhy() {
    String start = "queuegate could not look up the groups of ali\\u000ace: ";
    assertEquals(start + "the directory is unavailable, or did not answer within 2000 ms "
        + "(queuegate.lookup-timeout)", messageOfFailure());
    link.isLive = false;
    assertEquals(start + "the gate is connecting", messageOfFailure());
    link.fault = "planted";
    assertEquals(start + "planted", messageOfFailure());
  }

  @Test
  void anInterruptIsAFailureAndKept() {
    Thread.currentThread().interrupt();
    assertThrows(IOException.class, () -> groups.of("alice"));
    assertTrue(Thread.interrupted());
  }

  @Test
  void sparkGetsASet() {
    List<String> list = Arrays.asList("dev", "ops", "dev");
    scala.collection.immutable.Set<String> set = QueuegateSparkGroups.setOf(list);
    assertEquals(2, set.size());
    assertTrue(set.contains("ops"));
    assertEquals(0, QueuegateSparkGroups.setOf(Collections.emptyList()).size());
  }
}
