package io.queuegate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import io.queuegate.v1.BatchCheckQueueAccessRequest;
import io.queuegate.v1.PolicyPart;
import io.queuegate.v1.SyncOpen;
import io.queuegate.v1.SyncRequest;
import io.queuegate.v1.SyncResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Gates of servers that misbehave. */
class GateFakeTest {
  private static final Check ALICE = Check.of("alice", "root");

  private final StringBuffer logged = new StringBuffer();
  private LogListener listener;
  private FakeServer server;

  @BeforeEach
  void start() throws Exception {
    server = new FakeServer();
    listener = new LogListener(text -> logged.append(text).append('\n'));
  }

  @AfterEach
  void stop() {
    listener.close();
    server.close();
  }

  private GateConfig.Builder config() {
    return GateConfig.builder().client(server.config().build());
  }

  private static void becomes(Gate gate, GateState state) throws Exception {
    Server.eventually("the gate is " + state, () -> gate.state() == state);
  }

  private static SyncResponse part(Consumer<PolicyPart.Builder> change) {
    PolicyPart.Builder part = PolicyPart.newBuilder().setPartition("default");
    change.accept(part);
    if (part.getFirst()) {
      part.setRules(3).setNamingValue(1);
    }
    return SyncResponse.newBuilder().setPolicy(part).build();
  }

  private static String text(int length) {
    return String.join("", Collections.nCopies(length, "x"));
  }

  static Stream<Arguments> serversThatAreNotBelieved() {
    SyncResponse opened = FakeServer.opened(o -> {});
    List<Integer> zeros = Collections.nCopies(10_000, 0);
    return Stream.of(
        lies("a lease of 4294967295 ms; the longest is 5000 ms", 1, FakeServer.opened(o -> o.setLeaseMillis(-1))),
        lies("a ping interval of 4294967295 ms", 1, FakeServer.opened(o -> o.setPingIntervalMillis(-1))),
        lies("a message has more than 4194304 bytes", 1, opened, part(p -> p.setFirst(true).addNames(text(5 << 20)))),
        lies("more than 67108864 bytes", 100, opened, part(p -> p.setFirst(true)), part(p -> p.addNames(text(1 << 20)))),
        lies("the first part of a policy is missing", 1, opened, part(p -> p.setLast(true))),
        lies("the first message must be `opened`", 1, FakeServer.policy("alice")),
        lies(
            "more than 250000 queues",
            30,
            opened,
            part(
                p ->
                    p.setFirst(true)
                        .getLevelsBuilder()
                        .addAbove(0)
                        .addDepth(0)
                        .addUsers(0)
                        .addGroups(0)
                        .addServices(0)),
            part(
                p ->
                    p.getConfiguredQueuesBuilder()
                        .addAllName(Collections.nCopies(10_000, "q"))
                        .addAllParent(zeros)
                        .addAllSubmit(zeros)
                        .addAllAdmin(zeros))));
  }

  /** The last message is sent several times. */
  private static Arguments lies(String fault, int times, SyncResponse... messages) {
    return Arguments.of(fault, times, messages);
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource
  void serversThatAreNotBelieved(String fault, int times, SyncResponse[] messages) throws Exception {
    try (Gate gate = Gate.open(config().build())) {
      FakeServer.FakeStream stream = server.nextStream();
      for (SyncResponse each : messages) {
        stream.send(each);
      }
      for (int i = 1; i < times; i++) {
        stream.send(messages[messages.length - 1]);
      }
      Server.eventually("the end is logged", () -> logged.indexOf(fault) >= 0);
      assertTrue(logged.indexOf("does not follow the protocol") >= 0, logged.toString());
      assertNull(gate.checkLocally(ALICE));
      assertEquals(GateState.CONNECTING, gate.state());
      assertEquals(7, gate.check(ALICE).policyRevision());
      server.nextStream().greet("alice", o -> {}); // it opens another one
      becomes(gate, GateState.LIVE);
    }
  }

  @Test
  void aGateResumes() throws Exception {
    try (Gate gate = Gate.open(config().name("gate").build())) {
      FakeServer.FakeStream stream = server.nextStream();
      SyncOpen first = stream.opening();
      assertFalse(first.hasResume());
      assertEquals("gate", first.getName());
      assertEquals(16, first.getInstance().size());
      stream.greet("alice", o -> {});
      becomes(gate, GateState.LIVE);
      stream.end(Status.UNAVAILABLE.withDescription("draining"));
      stream = server.nextStream();
      SyncOpen again = stream.opening();
      assertEquals(5, again.getResume().getSequence());
      assertEquals(1, again.getHeldCount());
      assertEquals(first.getInstance(), again.getInstance());
      Decision decision = gate.checkLocally(ALICE); // the lease lasts
      assertFalse(decision.stale());
      stream.end(Status.PERMISSION_DENIED);
      stream = server.nextStream();
      assertFalse(stream.opening().hasResume());
      assertEquals(GateState.CONNECTING, gate.state());
      stream.greet("alice", o -> {});
      becomes(gate, GateState.LIVE);
      assertEquals(Collections.emptyList(), server.asked);
    }
  }

  @Test
  void aServerThatFallsSilent() throws Exception {
    try (Gate gate = Gate.open(config().stale(Duration.ofHours(1)).build())) {
      FakeServer.FakeStream stream = server.nextStream();
      stream.greet("alice", o -> {});
      becomes(gate, GateState.LIVE);
      stream.answersPings = false;
      server.nextStream(); // the first stream is dropped
      assertTrue(logged.indexOf("ended: the server has not responded to a ping for 3 s") >= 0, logged.toString());
      Server.eventually("it decides from old state", () -> gate.checkLocally(ALICE).stale());
    }
  }

  /** As behind a proxy whose server hangs: another connection reaches one that does not. */
  @Test
  void aConnectionThatIsCutIsLeft() throws Exception {
    try (Relay relay = new Relay(server.port())) {
      ClientConfig client = ClientConfig.builder().address("127.0.0.1:" + relay.port()).build();
      try (Gate gate = Gate.open(GateConfig.builder().client(client).build())) {
        server.nextStream().greet("alice", o -> {});
        becomes(gate, GateState.LIVE);
        relay.cut();
        server.nextStream().greet("alice", o -> {});
        becomes(gate, GateState.LIVE);
      }
    }
  }

  @Test
  void aServerThatSendsNoPolicyIsLeft() throws Exception {
    try (Gate gate = Gate.open(config().build())) {
      FakeServer.FakeStream stream = server.nextStream();
      stream.send(FakeServer.opened(o -> {}));
      stream.answersPings = true;
      server.nextStream().greet("alice", o -> {});
      becomes(gate, GateState.LIVE);
      assertTrue(logged.indexOf("has sent no complete policy for 3 s") >= 0, logged.toString());
    }
  }

  @Test
  void aGateThatIsClosedReleasesItsLease() throws Exception {
    Gate gate = Gate.open(config().build());
    FakeServer.FakeStream stream = server.nextStream();
    stream.greet("alice", o -> {});
    becomes(gate, GateState.LIVE);
    long start = System.nanoTime();
    gate.close();
    assertTrue(Duration.ofNanos(System.nanoTime() - start).toMillis() < 2_000, "it takes too long");
    stream.until(SyncRequest::hasRelease);
    assertNull(gate.checkLocally(ALICE));
    for (Executable call :
        Arrays.<Executable>asList(
            () -> gate.check(ALICE),
            () -> gate.checkMany(Collections.singletonList(ALICE)),
            () -> gate.listQueues(ALICE),
            () -> gate.client().check(ALICE))) {
      assertEquals("the gate is closed", assertThrows(QueuegateException.Closed.class, call).getMessage());
    }
  }

  @Test
  void onlyWhatTheGateCannotDecideIsAsked() throws Exception {
    try (Gate gate = Gate.open(config().build())) {
      server.nextStream().greet("alice", o -> {});
      becomes(gate, GateState.LIVE);
      List<Check> questions = new ArrayList<>();
      for (int i = 0; i < 10; i++) {
        questions.add(i % 2 == 0 ? ALICE : ALICE.withPartition("elsewhere"));
      }
      List<Result> results = gate.checkMany(questions);
      for (int i = 0; i < 10; i++) {
        assertEquals(i % 2 == 0 ? 1 : 7, results.get(i).get().policyRevision());
      }
      assertEquals(1, server.asked.size());
      assertEquals(5, ((BatchCheckQueueAccessRequest) server.asked.get(0)).getChecksCount());
      QueuegateException.InvalidArgument error =
          assertThrows(
              QueuegateException.InvalidArgument.class,
              () -> gate.checkMany(Collections.singletonList(Check.of("alice", ""))));
      assertEquals("checks[0].queue", error.violations().get(0).field());
    }
  }

  /** Readers and the stream do not interfere. */
  @Test
  void threadsShareAGate() throws Exception {
    try (Gate gate = Gate.open(config().build())) {
      FakeServer.FakeStream stream = server.nextStream();
      stream.greet("alice", o -> {});
      AtomicReference<String> fault = new AtomicReference<>();
      List<Thread> threads = new ArrayList<>();
      for (int i = 0; i < 4; i++) {
        Check question = Check.of("user" + i, "root");
        threads.add(new Thread(() -> {
          while (!Thread.currentThread().isInterrupted()) {
            Decision decision = gate.checkLocally(question);
            if (decision != null && decision.allowed() != decision.matchedSubject().equals(question.user())) {
              fault.set(decision.toString());
            }
          }
        }));
      }
      threads.forEach(Thread::start);
      for (int i = 0; i < 500; i++) {
        stream.send(FakeServer.policy("user" + i % 4));
      }
      for (Thread each : threads) {
        each.interrupt();
        each.join();
      }
      assertNull(fault.get());
    }
  }

  /** An interrupted thread gets local decisions, and stays interrupted. */
  @Test
  void interrupts() throws Exception {
    try (Gate gate = Gate.open(config().build())) {
      server.nextStream().greet("alice", o -> {});
      becomes(gate, GateState.LIVE);
      Thread.currentThread().interrupt();
      Decision decision = gate.checkLocally(ALICE);
      boolean isInterrupted = Thread.interrupted();
      assertTrue(decision != null && isInterrupted, "no decision, or it has cleared the interrupt");
    }
  }

  /** The program learns what the gate decides, but not what it asks. */
  @Test
  void decisionsAreTold() throws Exception {
    List<DecisionRecord> told = new ArrayList<>();
    try (Gate gate = Gate.open(config().name("shim").onDecision(told::add).build())) {
      server.nextStream().greet("alice", o -> {});
      becomes(gate, GateState.LIVE);
      Decision decision = gate.check(ALICE);
      gate.check(ALICE.withPartition("elsewhere"));
      assertEquals(1, told.size());
      assertEquals(ALICE, told.get(0).question());
      assertEquals(decision, told.get(0).decision());
      assertTrue(told.get(0).json().contains("\"caller\":\"gate:shim\""), told.get(0).json());
    }
  }
}
