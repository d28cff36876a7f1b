package io.queuegate.hadoop;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.queuegate.Access;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.RejectedExecutionException;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;

/** The defaults apply: groups are renewed after 5 s and not used after 60 s. */
class GroupsCopyTest {
  private static final List<String> DEV = Collections.singletonList("dev");
  private static final List<String> OPS = Collections.singletonList("ops");

  private final Deque<Runnable> work = new ArrayDeque<>();
  private final Map<String, List<String>> directory = new HashMap<>();
  private long now = SECONDS.toNanos(1000);
  private int lookups;
  private final GroupsCopy copy = copy(10);

  private GroupsCopy copy(int maxUsers) {
    Configuration configuration = new Configuration(false);
    configuration.set("queuegate.address", "127.0.0.1:1");
    configuration.setInt("queuegate.groups.max-users", maxUsers);
    return new GroupsCopy(this::lookUp, work::add, Settings.of(configuration), () -> now);
  }

  private List<String> lookUp(String user) throws IOException {
    lookups++;
    List<String> groups = directory.get(user);
    if (groups == null) {
      throw new IOException("planted");
    }
    return groups;
  }

  private void runWork() {
    while (!work.isEmpty()) {
      work.remove().run();
    }
  }

  private void pass(long seconds) {
    now += SECONDS.toNanos(seconds);
  }

  @Test
  void theAgeIsThatOfTheOldestGroups() {
    assertEquals(0, copy.oldestMillis());
    directory.put("alice", DEV);
    directory.put("bob", OPS);
    copy.known("alice");
    runWork();
    pass(2);
    copy.known("bob");
    runWork();
    pass(1);
    assertEquals(3_000, copy.oldestMillis());
    copy.invalidate("alice");
    assertEquals(1_000, copy.oldestMillis());
    pass(60);
    assertEquals(0, copy.oldestMillis(), "they have expired");
  }

  @Test
  void theFirstUseLooksUpElsewhere() {
    directory.put("alice", DEV);
    assertNull(copy.known("alice"));
    assertNull(copy.known("alice"));
    assertEquals(0, lookups);
    runWork();
    assertEquals(1, lookups);
    assertEquals(DEV, copy.known("alice"));
  }

  @Test
  void groupsAreRenewedWhileTheyAreUsed() {
    directory.put("alice", DEV);
    copy.known("alice");
    runWork();
    directory.put("alice", OPS);
    pass(5);
    assertEquals(DEV, copy.known("alice"));
    assertEquals(0, work.size());
    pass(1);
    assertEquals(DEV, copy.known("alice"));
    assertEquals(1, work.size());
    runWork();
    assertEquals(OPS, copy.known("alice"));
  }

  @Test
  void failedRenewalsKeepGroupsForTheirLifetime() {
    directory.put("alice", DEV);
    copy.known("alice");
    runWork();
    directory.remove("alice");
    for (int i = 0; i < 60; i++) {
      assertEquals(DEV, copy.known("alice"));
      runWork();
      pass(1);
    }
    pass(1);
    assertNull(copy.known("alice"));
    assertEquals(lookups - 1, copy.failures());
  }

  @Test
  void aFailureIsNeverAnEmptyListAndNotRepeatedAtOnce() {
    for (int i = 0; i < 100; i++) {
      assertNull(copy.known("alice"));
      runWork();
    }
    assertEquals(1, lookups);
    pass(1);
    assertNull(copy.known("alice"));
    runWork();
    assertEquals(2, lookups);
  }

  @Test
  void noGroupsAreKnownGroups() {
    directory.put("alice", Collections.emptyList());
    copy.known("alice");
    runWork();
    assertEquals(Collections.emptyList(), copy.known("alice"));
  }

  @Test
  void tooManyGroupsAreAFailure() {
    directory.put("alice", Collections.nCopies(10_001, "dev"));
    copy.known("alice");
    runWork();
    assertNull(copy.known("alice"));
    assertEquals(1, copy.failures());
  }

  @Test
  void anInvalidationRenewsThatUserOnly() {
    directory.put("alice", DEV);
    directory.put("bob", DEV);
    copy.known("alice");
    copy.known("bob");
    runWork();
    directory.put("alice", OPS);
    copy.invalidate("alice");
    copy.invalidate("nobody");
    assertNull(copy.known("alice"));
    assertEquals(DEV, copy.known("bob"));
    runWork();
    assertEquals(OPS, copy.known("alice"));
    assertEquals(3, lookups);
  }

  @Test
  void aLookupFromBeforeAnInvalidationIsDropped() {
    directory.put("alice", DEV);
    GroupsCopy[] racing = new GroupsCopy[1];
    Configuration configuration = new Configuration(false);
    configuration.set("queuegate.address", "127.0.0.1:1");
    racing[0] = new GroupsCopy(user -> {
      List<String> read = directory.get(user);
      if (lookups++ == 0) {
        directory.put(user, OPS);
        racing[0].invalidate(user);
      }
      return read;
    }, work::add, Settings.of(configuration), () -> now);
    racing[0].known("alice");
    work.remove().run();
    assertNull(racing[0].known("alice"));
    runWork();
    assertEquals(OPS, racing[0].known("alice"));
  }

  @Test
  void invalidatingAllDropsRunningLookupsAsWell() {
    directory.put("alice", DEV);
    copy.known("alice");
    copy.invalidateAll();
    work.remove().run();
    assertNull(copy.known("alice"));
    runWork();
    assertEquals(DEV, copy.known("alice"));
  }

  @Test
  void invalidatingAllRenewsTheUsersInUse() {
    directory.put("alice", DEV);
    directory.put("bob", DEV);
    copy.known("bob");
    runWork();
    pass(61);
    copy.known("alice");
    runWork();
    directory.put("alice", OPS);
    copy.invalidateAll();
    assertEquals(1, work.size());
    runWork();
    assertEquals(OPS, copy.known("alice"));
  }

  @Test
  void theNumberOfUsersIsBounded() {
    GroupsCopy small = copy(3);
    for (String user : Arrays.asList("a", "b", "c", "d", "e")) {
      directory.put(user, DEV);
      small.known(user);
      runWork();
      assertEquals(DEV, small.known(user));
    }
    assertEquals(3, small.size());
  }

  @Test
  void theNumberOfLookupsIsBounded() throws InterruptedException {
    GroupsCopy small = copy(3);
    for (String user : Arrays.asList("a", "b", "c", "d", "e")) {
      small.known(user);
    }
    assertEquals(3, work.size());
    small.await("e", 10_000); // at once: nobody looks its groups up
    runWork();
    pass(1);
    directory.put("e", DEV);
    small.known("e");
    runWork();
    assertEquals(DEV, small.known("e"));
  }

  @Test
  void aFullExecutorIsAFailedLookup() throws InterruptedException {
    Configuration configuration = new Configuration(false);
    configuration.set("queuegate.address", "127.0.0.1:1");
    GroupsCopy full = new GroupsCopy(this::lookUp, task -> {
      throw new RejectedExecutionException();
    }, Settings.of(configuration), () -> now);
    full.await("alice", 10_000);
    assertNull(full.known("alice"));
    assertEquals(1, full.failures());
  }

  @Test
  void aLookupThatNoThreadCouldStartIsRepeated() {
    directory.put("alice", DEV);
    Configuration configuration = new Configuration(false);
    configuration.set("queuegate.address", "127.0.0.1:1");
    int[] starts = new int[1];
    GroupsCopy exhausted = new GroupsCopy(this::lookUp, task -> {
      if (starts[0]++ == 0) {
        throw new OutOfMemoryError("unable to create native thread");
      }
      task.run();
    }, Settings.of(configuration), () -> now);
    assertNull(exhausted.known("alice"));
    pass(1);
    exhausted.known("alice");
    assertEquals(DEV, exhausted.known("alice"));
  }

  @Test
  void groupsAreAsOldAsTheirLookup() {
    Configuration configuration = new Configuration(false);
    configuration.set("queuegate.address", "127.0.0.1:1");
    GroupsCopy slow = new GroupsCopy(user -> {
      pass(61);
      return DEV;
    }, work::add, Settings.of(configuration), () -> now);
    slow.known("alice");
    runWork();
    assertNull(slow.known("alice"));
  }

  @Test
  void theServersInvalidationsApply() {
    ScriptedLink link = ScriptedLink.answering(Answer.ALLOWED);
    HadoopGroupsGate gate = new HadoopGroupsGate(link, copy);
    directory.put("alice", DEV);
    for (String invalidated : new String[] {"alice", null}) {
      gate.decide(new QueueCheck("alice", "", "root.a", Access.SUBMIT));
      runWork();
      assertEquals(DEV, copy.known("alice"));
      link.invalidate.accept(invalidated);
      assertNull(copy.known("alice"));
    }
  }

  @Test
  void groupsWithoutATimeAreNotUsed() {
    directory.put("alice", DEV);
    long before = now;
    now = Long.MAX_VALUE / 2; // the clock cannot be read
    copy.known("alice");
    runWork();
    now = before;
    assertNull(copy.known("alice"));
    runWork();
    assertEquals(DEV, copy.known("alice"));
  }
}
