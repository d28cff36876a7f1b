package io.queuegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class HadoopCacheTest {
  private static final List<String> DEV = Collections.singletonList("dev");
  private static final List<String> NONE = Collections.emptyList();
  private static final long CACHE_SECONDS = 300;

  private final ScriptedLink link = new ScriptedLink();
  private final Map<Long, Runnable> due = new TreeMap<>(); // by time in milliseconds
  private long millis;
  private int refreshes;
  private RuntimeException errorOfRefresh;
  private boolean hasThreads = true;
  private final HadoopCache cache = new HadoopCache(link, TimeUnit.SECONDS.toNanos(2), CACHE_SECONDS,
      this::refresh, this::after, () -> TimeUnit.MILLISECONDS.toNanos(millis));

  private void refresh() {
    refreshes++;
    if (errorOfRefresh != null) {
      throw errorOfRefresh;
    }
  }

  private void after(long delay, Runnable work) {
    if (!hasThreads) {
      throw new OutOfMemoryError("unable to create native thread");
    }
    due.merge(millis + delay, work, (first, second) -> () -> {
      first.run();
      second.run();
    });
  }

  /** Lets time pass, with the work that becomes due, and returns how often Hadoop's cache was emptied. */
  private int refreshesAfter(long passed) {
    refreshes = 0;
    long end = millis + passed;
    while (!due.isEmpty() && due.keySet().iterator().next() <= end) {
      millis = due.keySet().iterator().next();
      due.remove(millis).run();
    }
    millis = end;
    return refreshes;
  }

  @Test
  void theLastGroupOfAnInvalidatedUser() {
    cache.gets("alice", DEV);
    link.invalidate.accept("alice");
    assertEquals(0, refreshesAfter(50), "the server has not answered yet");
    link.groups.put("alice", NONE);
    assertEquals(1, refreshesAfter(20));
    assertEquals(0, refreshesAfter(60_000));
  }

  @Test
  void theLastGroupOfAnyUserAfterAllWereInvalidated() {
    cache.gets("alice", DEV);
    cache.gets("bob", DEV);
    link.groups.put("alice", DEV);
    link.groups.put("bob", NONE);
    link.invalidate.accept(null);
    assertEquals(1, refreshesAfter(20));
  }

  /** Look-ups of so many would take the place of the groups that the gate keeps for others. */
  @Test
  void manyUsersAreNotLookedUp() {
    for (int i = 0; i < HadoopCache.MAX_LOOKUPS; i++) {
      cache.gets("user" + i, DEV);
      link.groups.put("user" + i, DEV);
    }
    link.invalidate.accept(null);
    assertEquals(0, refreshesAfter(5_000));
    assertEquals(HadoopCache.MAX_LOOKUPS, link.lookups);
    link.lookups = 0;
    cache.gets("alice", DEV);
    int counted = 0;
    for (int i = 0; i < 50; i++) {
      link.invalidate.accept(null);
      counted += refreshesAfter(50);
    }
    assertEquals(3, counted, "at most one a second");
    assertEquals(1, refreshesAfter(5_000), "none is lost");
    assertEquals(0, refreshesAfter(5_000));
    assertEquals(0, link.lookups);
  }

  @Test
  void manyUsersAreNotLookedUpOneByOneEither() {
    for (int i = 0; i < HadoopCache.MAX_LOOKUPS + 1; i++) {
      cache.gets("user" + i, DEV);
    }
    for (int i = 0; i < HadoopCache.MAX_LOOKUPS + 1; i++) {
      link.invalidate.accept("user" + i);
    }
    assertEquals(1, refreshesAfter(5_000));
    assertEquals(0, link.lookups);
    link.groups.put("user7", NONE);
    link.invalidate.accept("user7");
    assertEquals(1, refreshesAfter(20), "a single user is looked up again");
  }

  @Test
  void anErrorDoesNotEndTheLookups() {
    cache.gets("alice", DEV);
    cache.gets("bob", DEV);
    link.groups.put("bob", NONE);
    link.errorOfGroups = new IllegalStateException("planted");
    link.errorUser = "alice";
    link.invalidate.accept(null);
    assertEquals(1, refreshesAfter(20), "others are looked up");
    int lookups = link.lookups;
    link.errorOfGroups = new OutOfMemoryError("planted");
    assertEquals(0, refreshesAfter(1_000));
    assertTrue(link.lookups - lookups <= 2, "not 100 times a second");
    link.errorOfGroups = null;
    link.groups.put("alice", NONE);
    assertEquals(1, refreshesAfter(1_000));
    link.errorOfGroups = new IllegalStateException("planted");
    link.invalidate.accept("alice");
    refreshesAfter(5_000);
    assertTrue(due.isEmpty(), "not for ever");
  }

  @Test
  void aUserWhoStillHasGroupsOrNeverHadSome() {
    cache.gets("alice", Arrays.asList("dev", "ops"));
    cache.gets("nobody", NONE);
    link.groups.put("alice", DEV);
    link.groups.put("nobody", NONE);
    for (String user : new String[] {"alice", "nobody", "stranger", null}) {
      link.invalidate.accept(user);
      assertEquals(0, refreshesAfter(5_000));
    }
    cache.gets("alice", DEV);
    cache.gets("nobody", NONE);
    assertEquals(0, refreshesAfter(5_000));
  }

  @Test
  void groupsThatExpireAreNoticedByHadoopsNextLookup() {
    losesTheLastGroup("alice");
    assertEquals(1, refreshesAfter(20));
    cache.gets("alice", NONE);
    assertEquals(0, refreshesAfter(5_000));
  }

  /** Hadoop may cache a list that it received before the cache was emptied. */
  @Test
  void aListThatHadoopCachesLateDoesNotStay() {
    cache.gets("alice", DEV);
    link.groups.put("alice", NONE);
    link.invalidate.accept("alice");
    assertEquals(1, refreshesAfter(20));
    cache.gets("alice", NONE);
    assertEquals(1, refreshesAfter(2_000));
  }

  private void losesTheLastGroup(String user) {
    cache.gets(user, DEV);
    cache.gets(user, NONE);
  }

  @Test
  void atMostOnceASecond() {
    int counted = 0;
    for (int i = 0; i < 100; i++) {
      losesTheLastGroup("user" + i);
      counted += refreshesAfter(50);
    }
    assertTrue(counted == 5 || counted == 6, counted + " in 5 s");
    refreshesAfter(2_000);
    losesTheLastGroup("alice");
    assertEquals(1, refreshesAfter(10));
    losesTheLastGroup("bob");
    assertEquals(0, refreshesAfter(900));
    assertEquals(1, refreshesAfter(100), "none is lost");
  }

  @Test
  void aLookupThatFailsIsNotRepeatedForLong() {
    cache.gets("alice", DEV);
    link.invalidate.accept("alice");
    assertEquals(0, refreshesAfter(3_000));
    assertTrue(due.isEmpty());
    link.groups.put("alice", NONE);
    cache.gets("alice", NONE);
    assertEquals(1, refreshesAfter(20), "Hadoop's next look-up");
  }

  @Test
  void aFailureIsFollowedByAPauseWhateverIsInvalidated() {
    cache.gets("alice", DEV);
    cache.gets("bob", DEV);
    link.errorUser = "alice";
    link.errorOfGroups = new IllegalStateException("planted");
    link.meanwhile = () -> link.invalidate.accept("alice");
    link.invalidate.accept("alice");
    for (int i = 0; i < 100; i++) {
      refreshesAfter(50);
      link.invalidate.accept("bob");
    }
    assertTrue(link.lookups <= 12, link.lookups + " look-ups of two users in 5 s");
    link.meanwhile = () -> { };
    link.groups.put("bob", NONE);
    assertEquals(1, refreshesAfter(1_000), "bob is looked up nevertheless");
    refreshesAfter(5_000);
    int lookups = link.lookups;
    link.invalidate.accept("alice");
    refreshesAfter(5_000);
    assertTrue(link.lookups > lookups, "an end of the pause");
  }

  private void fills() {
    for (int i = 0; i < HadoopCache.MAX_USERS + 1; i++) { // one too many
      cache.gets("user" + i, DEV);
      link.groups.put("user" + i, DEV);
    }
  }

  @Test
  void aForgottenUserWhoIsInvalidated() {
    fills();
    link.invalidate.accept("user0");
    assertEquals(0, refreshesAfter(1_000), "still has groups");
    link.groups.put("user0", NONE);
    link.invalidate.accept("user0");
    assertEquals(1, refreshesAfter(20));
    millis += 10 * TimeUnit.SECONDS.toMillis(CACHE_SECONDS);
    link.invalidate.accept("user0");
    assertEquals(1, refreshesAfter(1_000), "Hadoop may have cached the list late");
    link.invalidate.accept("user0");
    assertEquals(0, refreshesAfter(5_000), "Hadoop's cache was emptied");
  }

  @Test
  void forgottenUsersWhoAreAllInvalidated() {
    fills();
    for (int i = 0; i < HadoopCache.MAX_USERS + 1; i++) {
      cache.gets("user" + i, NONE);
    }
    refreshesAfter(5_000);
    link.invalidate.accept(null);
    assertEquals(1, refreshesAfter(5_000));
    assertEquals(0, link.lookups);
  }

  @Test
  void aForgottenUserStaysForgottenIfHadoopsCacheCannotBeEmptied() {
    fills();
    millis += TimeUnit.MINUTES.toMillis(5);
    link.groups.put("user0", NONE);
    errorOfRefresh = new IllegalStateException("planted");
    link.invalidate.accept("user0");
    assertEquals(1, refreshesAfter(20));
    errorOfRefresh = null;
    link.invalidate.accept("user0");
    assertEquals(1, refreshesAfter(2_000));
    link.invalidate.accept("user0");
    assertEquals(0, refreshesAfter(2_000));
  }

  @Test
  void usersAreForgottenOnceHadoopHasDroppedThem() {
    fills();
    cache.gets("user0", NONE);
    assertEquals(1, refreshesAfter(20));
    refreshesAfter(2_000);
    cache.gets("user1", NONE);
    assertEquals(1, refreshesAfter(20));
    millis += TimeUnit.SECONDS.toMillis(11 * CACHE_SECONDS);
    cache.gets("alice", DEV);
    cache.gets("user2", NONE);
    assertEquals(0, refreshesAfter(20));
  }

  @Test
  void aLackOfThreadsDoesNotReachTheGate() {
    cache.gets("alice", DEV);
    hasThreads = false;
    link.invalidate.accept("alice");
    cache.gets("alice", NONE);
    hasThreads = true;
    losesTheLastGroup("alice");
    assertEquals(1, refreshesAfter(2_000));
  }

  @Test
  void aLackOfThreadsDoesNotEndTheLookups() {
    cache.gets("alice", DEV);
    hasThreads = false;
    link.invalidate.accept("alice");
    hasThreads = true;
    link.groups.put("alice", NONE);
    cache.gets("bob", DEV);
    assertEquals(1, refreshesAfter(20));
  }
}
