package io.queuegate.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.queuegate.Access;
import io.queuegate.Check;
import io.queuegate.Decision;
import io.queuegate.v1.PolicyPart;
import io.queuegate.v1.QueueNaming;
import io.queuegate.v1.Reason;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;

/** The walk through chains, and the names of queues. */
class DecideTest {
  /**
   * Asks in shorthand: user@queue, in capitals for administration, followed by the groups (- for none), if
   * known, and ~ the real user.
   */
  private static String ask(Partition partition, String question) {
    String[] words = question.split(" ");
    String user = words[0].substring(0, words[0].indexOf('@'));
    String queue = words[0].substring(user.length() + 1);
    Access access = user.equals(user.toUpperCase(Locale.ROOT)) ? Access.ADMIN : Access.SUBMIT;
    List<String> groups = null;
    String realUser = "";
    for (String word : Arrays.copyOfRange(words, 1, words.length)) {
      if (word.startsWith("~")) {
        realUser = word.substring(1);
        continue;
      }
      groups = groups == null ? new ArrayList<>() : groups;
      groups.addAll(word.equals("-") ? Collections.emptyList() : Collections.singletonList(word));
    }
    Partition.Target target = partition.locate(queue, access);
    if (target == null) {
      return "ask";
    }
    Decision decision = partition.decide(target, user.toLowerCase(Locale.ROOT), groups, realUser, 0);
    if (decision == null) {
      return "?";
    }
    String text = (decision.allowed() ? "+" : "") + decision.reason().name().toLowerCase(Locale.ROOT);
    for (String part : Arrays.asList(decision.matchedQueue(), decision.matchedSubject())) {
      text += part.isEmpty() ? "" : " " + part;
    }
    return text + (decision.evaluatedQueue().isEmpty() ? "" : " in " + decision.evaluatedQueue());
  }

  private static void expect(PolicyPart.Builder tables, String... questionsAndAnswers) throws ProtocolFault {
    Partition partition = Tables.read(tables.build()).partition;
    for (int i = 0; i < questionsAndAnswers.length; i += 2) {
      assertEquals(questionsAndAnswers[i + 1], ask(partition, questionsAndAnswers[i]), questionsAndAnswers[i]);
    }
  }

  private static String levels(int count) {
    return String.join("", Collections.nCopies(count, ".a"));
  }

  @Test
  void yuniKorn() throws ProtocolFault {
    expect(
        new Policies()
            .queue("root", "", "boss ops")
            .queue("root.a", "alice devs", "carol")
            .queue("root.a.b", "alice,bob ops,testers", "")
            .queue("root.a.open", "*", "dave")
            .queue("root.@recovery@", "*", "eve")
            .build(),
        "alice@root.a.b", "+user root.a.b alice",
        "alice@ROOT.A.B.new.x", "+user root.a.b alice in root.a.b",
        "ALICE@root.a", "?",
        "ALICE@root.a -", "no_match",
        "carol@root.a.b", "+user root.a carol",
        "boss@root.a.b", "+user root boss",
        "eve@root.a.b", "?",
        "eve@root.a.b devs ops", "+group root.a.b ops",
        "eve@root.a.b x devs", "+group root.a devs",
        "EVE@root.a.b devs ops", "+group root ops",
        "eve@root.a.open", "+wildcard root.a.open *",
        "EVE@root.a.open -", "no_match",
        "boss@root.@recovery@", "recovery_queue root.@recovery@",
        "boss@root.@recovery@.x", "recovery_queue root.@recovery@",
        "EVE@root.@recovery@.x", "+user root.@recovery@ eve in root.@recovery@",
        "boss@root.@recovery@x", "+user root boss in root",
        "boss@elsewhere", "ask",
        "boss@root.", "ask",
        "boss@root..a", "ask",
        "boss@rooted", "ask",
        "boss@root.\u017f", "ask",
        "boss@root.a ~knox", "+user root boss",
        "eve@root.a.b - ~knox", "no_match",
        "boss@root" + levels(2_000), "+user root boss in root.a",
        "boss@root." + String.join("", Collections.nCopies(64, "a")), "+user root boss in root",
        "boss@root." + String.join("", Collections.nCopies(65, "a")), "ask");
  }

  @Test
  void yarn() throws ProtocolFault {
    expect(
        new Policies()
            .cluster("boss,yarn admins")
            .queue("root", "", "")
            .queue("root.A", "alice", "")
            .queue("root.A.b", "bob,~knox g", "~hive")
            .queue("root.c", "", "")
            .queue("root.c.A", "*", "")
            .naming(QueueNaming.QUEUE_NAMING_YARN_SHORT_NAMES)
            .build(),
        "bob@b", "+user root.A.b bob",
        "bob@A.b", "+user root.A.b bob",
        "bob@root.a.b -", "no_match in root",
        "alice@A", "no_match", // two queues share this name
        "alice@root.A", "+user root.A alice",
        "boss@root.A", "+cluster_admin boss",
        "YARN@root.A", "+cluster_admin yarn",
        "eve@root.A admins", "+cluster_admin admins",
        "eve@root.A", "?",
        "eve@root.A.b ~knox", "+user root.A.b ~knox",
        "EVE@root.A.b.x ~hive", "+user root.A.b ~hive in root.A.b",
        "EVE@root.A.b - ~knox", "no_match",
        "eve@root.A.b g ~knox", "+group root.A.b g",
        "eve@x..y", "ask",
        "eve@.x", "ask");
    expect(
        new Policies(Reason.REASON_ACLS_DISABLED)
            .queue("root", "alice g", "")
            .queue("root.c", "", "")
            .naming(QueueNaming.QUEUE_NAMING_YARN)
            .build(),
        "eve@root.c", "+acls_disabled",
        "eve@A", "+acls_disabled in root");
    expect(
        new Policies(Reason.REASON_CLUSTER_ADMIN)
            .queue("root.a", "alice g", "")
            .naming(QueueNaming.QUEUE_NAMING_YARN)
            .build(),
        "eve@a", "+cluster_admin *",
        "alice@a", "+user root.a alice");
  }

  @Test
  void queuesThatWillBeCreated() throws ProtocolFault {
    PolicyPart.Builder tables =
        new Policies()
            .queue("root", "boss", "")
            .queue("root.dynamic", "", "")
            .queue("root.dynamic.old", "", "")
            .create("root.dynamic.*", "alice g", "carol")
            .create("root.dynamic.own", "bob", "")
            .create("root.dynamic.*.*", "dave", "")
            .naming(QueueNaming.QUEUE_NAMING_YARN)
            .build();
    tables.getCreatedQueuesBuilder().setSubmit(1, 0); // only the server knows
    expect(
        tables,
        "alice@dynamic.new", "+user root.dynamic.new alice",
        "CAROL@dynamic.new", "+user root.dynamic.new carol",
        "eve@dynamic.x g", "+group root.dynamic.x g",
        "dave@dynamic.x.y", "+user root.dynamic.x.y dave",
        "alice@dynamic.x.y", "+user root.dynamic.x alice",
        "boss@dynamic.x.y", "+user root boss",
        "alice@dynamic.own", "ask",
        "alice@dynamic.own.x", "ask",
        "alice@dynamic.x.y.z", "ask",
        "boss@dynamic", "+user root boss",
        "alice@dynamic.old -", "no_match",
        "alice@dynamic.old.x -", "no_match in root.dynamic.old");
  }

  @Test
  void namesThatAServerMightReject() {
    World w = new World().live(World.whole("default", "*"));
    for (String name :
        Arrays.asList("", "a\tb", "u\u2028", "a\ud800", "\ufffd", String.join("", Collections.nCopies(513, "\u00e9")))) {
      assertEquals(null, w.ask(name, "root"), name);
      assertEquals(null, w.decider.decide(Check.of("u", "root").withRealUser(name + "\n")), name);
      assertEquals(
          null, w.decider.decide(Check.of("u", "root").withGroups(Collections.singleton(name))), name);
    }
    assertEquals(null, w.decider.decide(Check.of("*", "root").withGroups(Collections.singleton("g"))));
  }

  @Test
  void listsAreSortedByCodePoint() {
    World w = new World();
    w.live(
        World.part(
            World.complete(
                "default",
                new Policies()
                    .queue("root", "alice g", "")
                    .queue("root.\ud83d\ude00", "", "")
                    .queue("root.\uff5e", "", "")
                    .queue("root.b", "", "")
                    .queue("root.b.c", "", "")
                    .queue("root.bc", "", "")
                    .naming(QueueNaming.QUEUE_NAMING_YARN)
                    .build(),
                "x")));
    assertEquals(
        Arrays.asList("root", "root.b", "root.b.c", "root.bc", "root.\uff5e", "root.\ud83d\ude00"),
        w.decider.queues(Check.of("alice", "")));
    assertEquals(Arrays.asList("root.b", "root.b.c"), w.decider.queues(Check.of("alice", "b")));
    assertEquals(null, w.decider.queues(Check.of("eve", "")));
    w.give("eve", World.HOUR);
    assertEquals(Collections.emptyList(), w.decider.queues(Check.of("eve", "")));
  }

  @Test
  void namesOfALevelInAnyOrder() {
    PolicyPart.Builder policy = new Policies().queue("root", "b", "").queue("root.x", "a,b,c", "").build();
    World w = new World().live(World.part(World.complete("default", policy, "x")));
    for (String user : new String[] {"a", "b", "c"}) {
      w.expect(user, "root.x", io.queuegate.Reason.USER);
    }
    w.expect("d", "root.x", io.queuegate.Reason.NO_MATCH);
  }
}
