package io.queuegate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.queuegate.v1.InvalidateUserGroupsResponse;
import io.queuegate.v1.ReloadPolicyResponse;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Gates of a real server: barriers, restarts, suspended processes, rights. */
class GateServerTest {
  private static final Check ALICE = Check.of("alice", "root");

  @TempDir Path folder;

  private Path policy() throws Exception {
    return Server.write(folder.resolve("queues.yaml"), Server.yaml("alice"));
  }

  @Test
  void callsThatWaitForGates() throws Exception {
    Path policy = policy();
    AtomicInteger changes = new AtomicInteger();
    try (Server server = Server.of(policy);
        Gate gate =
            Server.live(
                Gate.open(
                    GateConfig.builder()
                        .client(server.config())
                        .onChange(
                            () -> {
                              changes.incrementAndGet();
                              throw new IllegalStateException("planted");
                            })
                        .build()))) {
      // The first such call waits for the leases of a previous process.
      InvalidateUserGroupsResponse first = Admin.invalidate(gate.client(), "", Collections.<String>emptyList());
      assertEquals(1, first.getWaitedOutCount());
      for (int round = 0; round < 10; round++) {
        String name = round % 2 == 0 ? "bob" : "alice";
        Server.write(policy, Server.yaml(name));
        ReloadPolicyResponse reloaded = Admin.reload(gate.client(), true);
        assertTrue(reloaded.getSucceeded());
        Decision decision = gate.check(ALICE);
        assertEquals(name.equals("alice"), decision.allowed());
        assertEquals(reloaded.getRevision(), decision.policyRevision());
      }
      assertTrue(gate.decided() > 5 && changes.get() > 1, gate.decided() + " " + changes);
    }
  }

  /** A process that is suspended during a change does not decide from the previous policy. */
  @Test
  void aGateInAProcessThatIsStopped() throws Exception {
    Path policy = policy();
    try (Server server = Server.of(policy);
        Client client = server.connect()) {
      String java = Paths.get(System.getProperty("java.home"), "bin", "java").toString();
      Process process =
          new ProcessBuilder(
                  java, "-cp", System.getProperty("java.class.path"), StoppedGate.class.getName(),
                  server.address)
              .redirectError(ProcessBuilder.Redirect.INHERIT)
              .start();
      try (BufferedReader output =
          new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
        untilLocal(process, output);
        for (int round = 0; round < 2; round++) {
          signal(process, "STOP");
          Server.write(policy, Server.yaml(round == 0 ? "bob" : "eve"));
          ReloadPolicyResponse reloaded = Admin.reload(client, true);
          assertTrue(reloaded.getSucceeded());
          // On a busy machine, reading the policy may outlast the lease: then nobody is waited for.
          for (String gate : reloaded.getWaitedOutList()) {
            assertTrue(round > 0 || gate.equals("stopped gate") || gate.contains("previous"), gate);
          }
          ask(process, 1_000); // sent before it resumes, so that it decides immediately after resuming
          signal(process, "CONT");
          for (int i = 0; i < 1_000; i++) {
            String[] words = output.readLine().split(" ");
            assertEquals(String.valueOf(2 + round) + " false", words[0] + " " + words[1]);
          }
          untilLocal(process, output);
        }
      } finally {
        signal(process, "CONT");
        process.destroy();
      }
    }
  }

  private static void ask(Process process, int count) throws Exception {
    OutputStream input = process.getOutputStream();
    String text = String.join("", Collections.nCopies(count, "alice root\n"));
    input.write(text.getBytes(StandardCharsets.UTF_8));
    input.flush();
  }

  private static void untilLocal(Process process, BufferedReader output) throws Exception {
    Server.eventually(
        "the gate decides without the server",
        () -> {
          ask(process, 1);
          return output.readLine().endsWith("true");
        });
  }

  private static void signal(Process process, String name) throws Exception {
    new ProcessBuilder("kill", "-" + name, String.valueOf(pid(process))).start().waitFor();
  }

  /** Java 8 has no method for it. */
  private static long pid(Process process) throws Exception {
    return (long) Process.class.getMethod("pid").invoke(process);
  }

  @Test
  void aServerThatRestarts() throws Exception {
    Path policy = policy();
    Server server = Server.of(policy);
    try (Gate gate =
        Server.live(
            Gate.open(
                GateConfig.builder().client(server.config()).stale(Duration.ofHours(1)).build()))) {
      Decision want = new Decision(true, Reason.USER, "root", "alice", 1, "", false);
      Server.expect(gate, "alice", ALICE, want);
      server.close();
      Server.eventually(
          "the lease has ended",
          () -> {
            Decision decision = gate.checkLocally(ALICE);
            assertNotNull(decision);
            assertTrue(decision.allowed());
            return decision.stale();
          });
      assertEquals(GateState.EXPIRED, gate.state());
      server = Server.of(policy, "--listen", server.address);
      Server.eventually("the gate is live again", () -> gate.state() == GateState.LIVE);
      Server.expect(gate, "alice", ALICE, want);
      assertEquals(1, gate.resets());
      assertTrue(gate.client().check(ALICE).allowed()); // the same connection is used again
    } finally {
      server.close();
    }
  }

  @Test
  void withoutAServer() throws Exception {
    Server server = Server.of(policy());
    try (Gate gate = server.gate();
        Client client = server.connect()) {
      assertTrue(client.check(ALICE).allowed());
      server.close();
      Server.eventually("the lease has ended", () -> gate.checkLocally(ALICE) == null);
      QueuegateException.ServerUnavailable error =
          assertThrows(
              QueuegateException.ServerUnavailable.class,
              () -> gate.client().within(Duration.ofSeconds(5)).check(ALICE));
      assertTrue(error.getMessage().startsWith("no server at 127.0.0.1:"), error.getMessage());
      try (Server again = Server.of(folder.resolve("queues.yaml"), "--listen", server.address)) {
        long started = System.nanoTime();
        Server.eventually("the client is connected again", () -> allowed(client));
        long seconds = (System.nanoTime() - started) / 1_000_000_000;
        assertTrue(seconds < 20, "gRPC's own pause: " + seconds);
        assertEquals(server.address, again.address);
      }
    }
  }

  private static boolean allowed(Client client) {
    try {
      return client.check(ALICE).allowed();
    } catch (QueuegateException.Unavailable error) {
      return false;
    }
  }

  @Test
  void gatesThatMayNotDecide() throws Exception {
    Path policy = policy();
    String[] audit = {"--set", "audit.path=" + folder.resolve("audit.log"), "--set", "audit.records=all"};
    try (Server server = Server.of(policy, audit);
        Gate gate = Gate.open(GateConfig.builder().client(server.config()).build())) {
      Server.eventually("the gate knows", () -> gate.state() == GateState.FORBIDDEN);
      assertTrue(gate.check(ALICE).allowed());
      assertEquals(0, gate.decided());
    }
    List<DecisionRecord> told = new CopyOnWriteArrayList<>();
    String[] allowed = Arrays.copyOf(audit, 6);
    allowed[4] = "--set";
    allowed[5] = "sync.local_decisions=allow";
    try (Server server = Server.of(policy, allowed);
        Gate gate =
            Server.live(
                Gate.open(GateConfig.builder().client(server.config()).onDecision(told::add).build()))) {
      assertTrue(gate.checkLocally(ALICE).allowed());
      assertEquals(1, told.size());
      assertEquals(1, Files.readAllLines(folder.resolve("audit.log")).size(), "what the server decided");
    }
    try (Server server = Server.of(policy, "--set", "callers.loopback.roles=check");
        Gate gate = Gate.open(GateConfig.builder().client(server.config()).build())) {
      assertTrue(gate.check(ALICE).allowed());
      assertEquals(GateState.CONNECTING, gate.state());
      gate.close();
      gate.close();
      assertEquals(GateState.CLOSED, gate.state());
      assertThrows(QueuegateException.Closed.class, () -> gate.check(ALICE));
    }
  }
}
