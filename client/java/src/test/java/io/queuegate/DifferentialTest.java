package io.queuegate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.queuegate.v1.Diagnostic;
import io.queuegate.v1.ReloadPolicyResponse;
import io.queuegate.v1.Severity;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A gate makes the same decisions as its server under any policy and semantics, including immediately
 * after a reload or an invalidation that waits for gates. It never reverts to an earlier state.
 */
class DifferentialTest {
  /** Rounds of 2 000 questions each. */
  private static final int ROUNDS = Integer.getInteger("rounds", 4);

  private static final String SETTINGS =
      "listen: [127.0.0.1:0]\n"
          + "callers: {loopback: {roles: [check, read, admin, sync], assert_groups: true}}\n"
          + "policies:\n"
          + "  - {path: queues.yaml}\n"
          + "  - {path: fair.xml, partition: fair, yarn_site: site.xml}\n"
          + "  - {path: fair.xml, partition: fair-hadoop, yarn_site: site.xml, daemon_user: yarn}\n"
          + "  - {path: capacity.xml, partition: capacity, yarn_site: site.xml, daemon_user: yarn}\n"
          + "  - {path: capacity.xml, partition: capacity-hadoop, yarn_site: site.xml}\n"
          + "resolvers: {table: {type: test}}\n"
          + "partitions:\n"
          + "  gpu: {acl_names: extended, resolver: table}\n"
          + "  any: {acl_names: any, resolver: table}\n"
          + "  fair: {resolver: table, trust_provided_groups: false}\n"
          + "  fair-hadoop: {semantics: hadoop}\n"
          + "  capacity-hadoop: {semantics: hadoop, resolver: table}\n";

  @TempDir Path folder;
  private final long seed = System.nanoTime();
  private final RandomPolicies random = new RandomPolicies(new Random(seed));

  private void change() throws Exception {
    Server.write(folder.resolve("queues.yaml"), random.yaml());
    Server.write(folder.resolve("fair.xml"), random.fair());
    Server.write(folder.resolve("capacity.xml"), random.capacity());
    Server.write(folder.resolve("site.xml"), random.site());
  }

  @Test
  void aGateDecidesAsTheServer() throws Exception {
    change();
    String settings = SETTINGS.replaceAll("(queues\\.yaml|\\w+\\.xml)", folder + "/$1");
    Path file = Server.write(folder.resolve("queuegate.yaml"), settings);
    AtomicLong barrier = new AtomicLong();
    AtomicBoolean isOver = new AtomicBoolean();
    AtomicReference<Throwable> fault = new AtomicReference<>();
    try (Server server = Server.start("--config", file.toString());
        Gate gate = server.gate()) {
      List<Thread> threads = new ArrayList<>();
      for (int i = 0; i < 2; i++) {
        RandomPolicies own = new RandomPolicies(new Random(seed + i));
        threads.add(new Thread(() -> askOn(gate, own, barrier, isOver, fault)));
      }
      threads.forEach(Thread::start);
      try {
        for (int round = 0; round < ROUNDS; round++) {
          round(gate, barrier);
        }
      } finally {
        isOver.set(true);
        for (Thread each : threads) {
          each.join();
        }
      }
      assertNull(fault.get(), String.valueOf(fault.get()));
      System.out.println("seed " + seed + ", decided by the gate: " + gate.decided());
      assertTrue(gate.decided() > 1_000L * ROUNDS, "decided " + gate.decided());
      assertEquals(0, gate.resets());
    }
  }

  private void round(Gate gate, AtomicLong barrier) throws Exception {
    change();
    ReloadPolicyResponse reloaded = Admin.reload(gate.client(), true);
    barrier.set(reloaded.getRevision());
    for (Diagnostic each : reloaded.getDiagnosticsList()) {
      assertTrue(
          reloaded.getSucceeded() || each.getSeverity() != Severity.SEVERITY_ERROR, each.toString());
    }
    List<Check> questions = new ArrayList<>();
    while (questions.size() < 2_000) {
      questions.add(random.question());
    }
    for (int time = 0; time < 2; time++) { // the second time, the groups are cached
      compare(gate, questions);
      for (Check each : questions.subList(0, 100)) {
        Check question = random.oneIn(2) ? each : rooted(each);
        assertEquals(
            outcome(() -> gate.client().listQueues(question)),
            outcome(() -> gate.listQueues(question)),
            "seed " + seed + ": queues of " + question);
      }
    }
    String partition = random.oneIn(2) ? "default" : "fair";
    List<String> some = RandomPolicies.USERS.subList(0, 2);
    Admin.invalidate(gate.client(), partition, random.oneIn(2) ? some : Collections.<String>emptyList());
    compare(gate, questions.subList(0, 500));
  }

  private static Check rooted(Check each) {
    Check check =
        Check.of(each.user(), "")
            .withPartition(each.partition())
            .withAccess(each.access())
            .withRealUser(each.realUser());
    return each.groups() == null ? check : check.withGroups(each.groups());
  }

  private void compare(Gate gate, List<Check> questions) {
    List<Result> want = gate.client().checkMany(questions);
    List<Result> got = gate.checkMany(questions);
    for (int i = 0; i < questions.size(); i++) {
      Result left = want.get(i);
      Result right = got.get(i);
      assertEquals(outcome(left::get), outcome(right::get), "seed " + seed + ": " + questions.get(i));
    }
  }

  private static Object outcome(Supplier<?> call) {
    try {
      return call.get();
    } catch (QueuegateException error) {
      return error.getClass();
    }
  }

  /** Runs checks in a loop. No decision is from a revision older than the barrier's. */
  private static void askOn(
      Gate gate,
      RandomPolicies random,
      AtomicLong barrier,
      AtomicBoolean isOver,
      AtomicReference<Throwable> fault) {
    while (!isOver.get() && fault.get() == null) {
      Check question = random.question();
      long least = barrier.get();
      try {
        Decision decision = gate.check(question);
        if (decision.policyRevision() < least) {
          fault.set(new AssertionError(decision + " after revision " + least));
        }
      } catch (QueuegateException.RequestRejected | QueuegateException.GroupsUnavailable expected) {
        continue;
      } catch (Throwable error) {
        fault.set(error);
      }
    }
  }
}
