package io.queuegate.internal;

import static io.queuegate.internal.World.HOUR;
import static io.queuegate.internal.World.SECOND;
import static io.queuegate.internal.World.complete;
import static io.queuegate.internal.World.opened;
import static io.queuegate.internal.World.part;
import static io.queuegate.internal.World.pong;
import static io.queuegate.internal.World.userGroups;
import static io.queuegate.internal.World.whole;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.queuegate.Reason;
import io.queuegate.v1.LevelColumns;
import io.queuegate.v1.PolicyPart;
import io.queuegate.v1.QueueColumns;
import io.queuegate.v1.ResolveOutcome;
import io.queuegate.v1.SyncResponse;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Hostile tables, and everything that grows. */
class BoundsTest {
  private static final int MANY = -1; // the largest number of the contract

  static Stream<Arguments> hostile() {
    LevelColumns.Builder deep = LevelColumns.newBuilder().addEndReasons(io.queuegate.v1.Reason.REASON_NO_MATCH);
    for (int i = 0; i <= Bounds.MAX_CHAIN_LEVELS; i++) {
      deep.addAbove(i == 0 ? 0 : 1).addDepth(0).addUsers(0).addGroups(0).addServices(0);
    }
    return Stream.of(
        change("level before the first", p -> p.getLevelsBuilder().setAbove(1, 2)),
        change("before the first", p -> p.getLevelsBuilder().setAbove(1, MANY)),
        change("columns of levels", p -> p.getLevelsBuilder().clearDepth()),
        change("columns of queues", p -> p.getConfiguredQueuesBuilder().clearSubmit()),
        change("columns of created queues", p -> p.getCreatedQueuesBuilder().clearAdmin()),
        change("number of listed names", p -> p.getLevelsBuilder().setUsers(1, 99)),
        change("number of listed names", p -> p.getLevelsBuilder().setUsers(1, MANY)),
        change("number of listed names", p -> p.getLevelsBuilder().addListed(0)),
        change("a name that does not exist", p -> p.getLevelsBuilder().setListed(0, p.getNamesCount())),
        change("end of a chain lists", p -> p.getLevelsBuilder().setUsers(0, 1).setUsers(1, 0)),
        change(
            "invalid reason",
            p -> p.getLevelsBuilder().setEndReasons(0, io.queuegate.v1.Reason.REASON_USER)),
        change("invalid reason", p -> p.getLevelsBuilder().setEndReasonsValue(0, 99)),
        change("invalid reason", p -> p.getLevelsBuilder().clearEndReasons()),
        change("reasons the ends", p -> p.getLevelsBuilder().addEndReasonsValue(1)),
        change("empty or was sent twice", p -> p.setNames(0, "")),
        change("sent twice", p -> p.setNames(1, p.getNames(0))),
        change("first queue is not", p -> p.getConfiguredQueuesBuilder().setName(0, "boot")),
        change("first queue is not", PolicyPart.Builder::clearConfiguredQueues),
        change("contains a dot", p -> p.getConfiguredQueuesBuilder().setName(1, "a.b")),
        change("empty or contains", p -> p.getCreatedQueuesBuilder().setName(0, "")),
        change("refers to a parent", p -> p.getConfiguredQueuesBuilder().setParent(1, 0)),
        change("refers to a parent", p -> p.getConfiguredQueuesBuilder().setParent(1, 2)),
        change("refers to a parent", p -> p.getConfiguredQueuesBuilder().setParent(1, MANY)),
        change("created queue refers", p -> p.getCreatedQueuesBuilder().setParent(0, 0)),
        change("created queue refers", p -> p.getCreatedQueuesBuilder().setParent(0, MANY)),
        change("a created queue twice", p -> p.getCreatedQueuesBuilder().setName(1, "*")),
        change("level that does not exist", p -> p.getConfiguredQueuesBuilder().setSubmit(1, MANY)),
        change("level that does not exist", p -> p.getConfiguredQueuesBuilder().setAdmin(1, 99)),
        change("level that does not exist", p -> p.getCreatedQueuesBuilder().setAdmin(1, 99)),
        change("ambiguous names refer", p -> p.setAmbiguousLevel(99)),
        change("ambiguous names refer", p -> p.setAmbiguousLevel(MANY)),
        change("deeper than the path", p -> p.getLevelsBuilder().setDepth(1, 9)),
        change("deeper than the path", p -> p.getLevelsBuilder().setDepth(1, MANY)),
        change("a queue twice", p -> twice(p.getConfiguredQueuesBuilder())),
        change("a path has more than 4096", p -> p.getConfiguredQueuesBuilder().setName(1, text(4_092))),
        change("more than 8192 levels", p -> p.clearNames().setLevels(deep)));
  }

  private static void twice(QueueColumns.Builder queues) {
    queues.addName("a").addParent(2).addSubmit(0).addAdmin(0);
  }

  private static String text(int length) {
    return String.join("", Collections.nCopies(length, "x"));
  }

  private static Arguments change(String fault, Consumer<PolicyPart.Builder> change) {
    return Arguments.of(fault, change);
  }

  @ParameterizedTest
  @MethodSource
  void hostile(String fault, Consumer<PolicyPart.Builder> change) {
    PolicyPart.Builder tables =
        complete(
            "default",
            new Policies()
                .queue("root", "bob g", "")
                .queue("root.a", "eve", "")
                .create("root.a.*", "dave", "")
                .create("root.a.b", "dave", "")
                .build(),
            "x");
    World w = new World().live(whole("default", "alice"), part(tables));
    w.expect("bob", "root", Reason.USER);
    change.accept(tables);
    String found = w.fault(part(tables));
    assertTrue(found != null && found.contains(fault), found + " instead of " + fault);
    w.expect("bob", "root", Reason.USER); // a faulty policy has no effect
  }

  @Test
  void partsWithoutEnd() {
    World w = new World().live();
    PolicyPart.Builder first = complete("default", PolicyPart.newBuilder(), "x").setLast(false);
    assertNull(w.fault(part(first)));
    SyncResponse more = part(PolicyPart.newBuilder().setPartition("default").addNames(text(1 << 20)));
    String fault = null;
    for (int i = 0; i <= 64 && fault == null; i++) {
      fault = w.fault(more);
    }
    assertTrue(fault.contains("67108864 bytes"), fault);
  }

  @Test
  void policiesThatWereReplacedDoNotCount() {
    int count = Bounds.MAX_QUEUES / 2 + 1;
    PolicyPart.Builder large = complete("default", new Policies().queue("root", "*", "").build(), "x");
    for (int i = 1; i < count; i++) {
      large.getConfiguredQueuesBuilder().addName("q" + i).addParent(i).addSubmit(0).addAdmin(0);
    }
    World w = new World().live(part(large), part(large), part(large));
    assertNotNull(w.fault(part(large.clone().setPartition("other"))));
  }

  @Test
  void partsInAnyOtherOrder() {
    World w = new World().live(whole("default", "alice"));
    PolicyPart.Builder next = complete("default", new Policies().queue("root", "bob", "").build(), "x");
    SyncResponse first = part(next.clone().setLast(false).clearConfiguredQueues());
    SyncResponse last =
        part(
            PolicyPart.newBuilder()
                .setPartition("default")
                .setConfiguredQueues(next.getConfiguredQueues())
                .setLast(true));
    assertNotNull(w.fault(last)); // its first part is missing
    w.receive(first, first);
    w.expect("alice", "root", Reason.USER); // from the previous policy
    assertTrue(w.fault(pong(1)).contains("came before the policy"), "a pong confirms half a policy");
    w.receive(last);
    w.expect("bob", "root", Reason.USER);
    w.expect("alice", "root", Reason.NO_MATCH);
    assertEquals(2, w.changes);
  }

  @Test
  void policiesOfOtherRulesAreLeftToTheServer() {
    World w = new World();
    PolicyPart.Builder newer = complete("default", new Policies().queue("root", "*", "").build(), "x");
    w.live(part(newer.clone().setRules(Partition.RULES + 1)));
    w.expect("eve", "root", null);
    w.receive(part(newer.clone().setNamingValue(99)));
    w.expect("eve", "root", null);
    w.receive(part(newer));
    w.expect("eve", "root", Reason.WILDCARD);
  }

  @Test
  void messages() {
    for (SyncResponse wrong :
        Arrays.asList(
            opened(o -> o.setLeaseMillis(MANY)),
            opened(o -> o.setLeaseMillis(5_001)),
            opened(o -> o.setPingIntervalMillis(MANY)),
            opened(o -> o.setEpoch(bytes(17))),
            opened(o -> o.addPartitions("")),
            opened(o -> o.addKeepGroupsOf(text(1_025))),
            opened(o -> o.addAllPartitions(Collections.nCopies(10_001, "p"))),
            World.forget("default", Collections.nCopies(10_001, "u").toArray(new String[0])),
            part(complete("default", new Policies().queue("root", "", "").build(), text(65))),
            part(complete("", new Policies().queue("root", "", "").build(), "x")),
            part(complete("default", new Policies().queue("root", "", "").build(), "x").setRemoved(true)),
            part(complete("default", PolicyPart.newBuilder(), "x").setRemoved(true).setUnchanged(true)),
            World.unchanged("default", "unknown", 1))) {
      World w = new World().live(whole("default", "alice"));
      assertNotNull(w.fault(wrong), wrong.toString().substring(0, 40));
    }
  }

  private static com.google.protobuf.ByteString bytes(int length) {
    return com.google.protobuf.ByteString.copyFrom(new byte[length]);
  }

  /** Checks of a user with too many groups go to the server; the stream stays open. */
  @Test
  void groupsThatAGateCannotUse() {
    String[] many = Collections.nCopies(Bounds.MAX_GROUPS_OF_USER + 1, "g").toArray(new String[0]);
    for (SyncResponse wrong :
        Arrays.asList(
            userGroups("eve", ResolveOutcome.RESOLVE_OUTCOME_RESOLVED, HOUR, many),
            userGroups("eve", ResolveOutcome.RESOLVE_OUTCOME_RESOLVED, HOUR, "g", text(1_025)),
            userGroups("eve", ResolveOutcome.RESOLVE_OUTCOME_UNSPECIFIED, HOUR, "g"))) {
      World w = new World().live(whole("default", " g"));
      w.expect("eve", "root", null);
      assertEquals(1, w.taken().size());
      w.receive(wrong);
      w.expect("eve", "root", null);
      assertEquals(0, w.taken().size());
    }
  }

  @Test
  void lifetimesHaveACeiling() {
    World w = new World().live(whole("default", " g"));
    w.expect("eve", "root", null);
    w.taken();
    SyncResponse given = userGroups("eve", ResolveOutcome.RESOLVE_OUTCOME_RESOLVED, 0, "g");
    w.receive(
        given.toBuilder()
            .setUserGroups(given.getUserGroups().toBuilder().setLifetimeMillis(MANY))
            .build());
    w.now += Bounds.MAX_LIFETIME - 1;
    w.renew();
    w.expect("eve", "root", Reason.GROUP);
    w.now++;
    w.renew();
    w.expect("eve", "root", null);
  }

  @Test
  void users() {
    World w = new World().live(whole("default", " g"));
    for (int i = 0; i < Users.MAX_USERS + 10; i++) {
      w.ask("user" + i, "root");
      w.give("user" + i, HOUR, "g");
      w.expect("user" + i, "root", Reason.GROUP);
    }
    assertEquals(Users.MAX_USERS, w.replica.users.count());
    Users large = new Users();
    List<String> groups = Collections.nCopies(Bounds.MAX_GROUPS_OF_USER, text(Bounds.MAX_NAME_BYTES));
    for (int i = 0; i < 40; i++) {
      large.set(new Users.Key("default", "u" + i), true, groups, 0, HOUR);
    }
    int each = Bounds.MAX_GROUPS_OF_USER * (Bounds.MAX_NAME_BYTES + Bounds.GROUP_OVERHEAD_BYTES);
    assertEquals(Bounds.MAX_GROUP_BYTES / each, large.count());
    assertEquals(large.count() * each, large.bytes());
    large.forget("default", Collections.emptyList());
    assertEquals(0, large.bytes());
  }

  @Test
  void wants() {
    World w = new World().live(whole("default", " g"));
    for (int i = 0; i < Wants.MAX_WAITING + 10; i++) {
      w.ask("user" + i, "root");
    }
    int total = 0;
    for (List<String> taken = w.taken(); !taken.isEmpty(); taken = w.taken()) {
      assertTrue(taken.size() <= Wants.MAX_WANTED, "in one message");
      total += taken.size();
    }
    assertEquals(Wants.MAX_WAITING, total);
    w.now += Wants.ANSWER_TIME; // these may still be pending on the server
    w.renew();
    w.ask("eve", "root");
    assertEquals(0, w.taken().size());
    for (int i = 0; i < 2_000; i++) {
      w.receive(userGroups("user" + i, ResolveOutcome.RESOLVE_OUTCOME_UNAVAILABLE, 0));
    }
    w.now += SECOND;
    w.ask("eve", "root");
    assertEquals(Collections.singletonList("eve"), w.taken());
  }

  @Test
  void pingsAndTheirInterval() {
    World w = new World();
    w.session.open();
    w.receive(opened(o -> o.setPingIntervalMillis(1)));
    assertEquals(Bounds.MIN_PING, w.session.pingInterval());
    long first = w.session.ping(w.now).getPing().getId();
    for (int i = 0; i < 10 * Session.MAX_PINGS; i++) {
      w.session.ping(w.now);
    }
    w.receive(pong(first)); // it is no longer known
    assertEquals(Clock.NEVER, w.session.leaseUntil());
  }
}
