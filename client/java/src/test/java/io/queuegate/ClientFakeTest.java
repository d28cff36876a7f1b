package io.queuegate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Metadata;
import io.grpc.Status;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.channels.ClosedChannelException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Settings, time limits, retries, tokens and errors of a client. */
class ClientFakeTest {
  private static final Check ALICE = Check.of("alice", "root");
  private static final UnaryOperator<String> NO_ENVIRONMENT = name -> null;

  @TempDir Path folder;
  private FakeServer server;

  @BeforeEach
  void start() throws IOException {
    server = new FakeServer();
  }

  @AfterEach
  void stop() {
    server.close();
  }

  @Test
  void addresses() {
    for (String text : Arrays.asList("a:1", "127.0.0.1:50051", "[::1]:50051", "unix:/run/q.sock", "unix:///q", "dns:///a:1", "")) {
      Address.parse(text, NO_ENVIRONMENT);
    }
    assertEquals("a.b:7", Address.parse("", name -> "a.b:7").text);
    assertTrue(Address.parse("[::1]:1", NO_ENVIRONMENT).isLocal, "[::1]");
    assertTrue(Address.parse("dns:///localhost:1", NO_ENVIRONMENT).isLocal, "dns:///localhost");
    assertEquals("dns:///a:1", Address.parse("dns:///a:1", NO_ENVIRONMENT).target);
    for (String text :
        Arrays.asList(
            "nowhere", ":1", "a:0", "a:65536", "a:x", "a b:1", "[a]:1", "::1:5", "unix:q", "unix:/" + repeated(107),
            "unix:/a\0b", "unix:/\ud800", "dns://8.8.8.8/a:1")) {
      IllegalArgumentException error =
          assertThrows(IllegalArgumentException.class, () -> Address.parse(text, NO_ENVIRONMENT), text);
      assertTrue(error.getMessage().startsWith("address \""), error.getMessage());
    }
  }

  private static String repeated(int length) {
    return String.join("", Collections.nCopies(length, "x"));
  }

  @Test
  void invalidSettings() throws IOException {
    ClientConfig.Builder client = ClientConfig.builder();
    assertThrows(IllegalArgumentException.class, () -> client.timeout(Duration.ZERO).build());
    client.timeout(Duration.ofSeconds(1));
    assertThrows(IllegalArgumentException.class, () -> client.attempts(6).build());
    client.attempts(4);
    for (GateConfig.Builder each :
        Arrays.asList(
            GateConfig.builder().stale(Duration.ofMillis(-1)),
            GateConfig.builder().stale(Duration.ofHours(24).plusNanos(1)),
            GateConfig.builder().name("a\nb"),
            GateConfig.builder().name(repeated(257)),
            GateConfig.builder().partitions(Collections.singleton("")),
            GateConfig.builder().partitions(Collections.nCopies(10_001, "p")))) {
      assertThrows(IllegalArgumentException.class, each::build);
    }
    String text = Server.write(folder.resolve("text"), "text").toString();
    String absent = folder.resolve("absent").toString();
    expectFault("caFile: cannot read", TlsConfig.defaults().withCaFile(absent));
    expectFault("must be a regular file", TlsConfig.defaults().withCaFile(folder.toString()));
    expectFault("does not contain a PEM certificate", TlsConfig.defaults().withCaFile(text));
    expectFault("must be given together", TlsConfig.defaults().withCertificate(text, ""));
    expectFault("and its private key in PKCS#8", TlsConfig.defaults().withCertificate(text, text));
    ClientConfig remote = ClientConfig.builder().address("example.com:1").tokenFile(text).build();
    String refused =
        assertThrows(IllegalArgumentException.class, () -> new Connection(remote, NO_ENVIRONMENT)).getMessage();
    assertTrue(refused.startsWith("refusing to send the token"), refused);
    for (String content : Arrays.asList("", "two tokens", "\u00e9", repeated(4_097))) {
      Path file = Server.write(folder.resolve("token"), content);
      ClientConfig config = server.config().tokenFile(file.toString()).build();
      String fault =
          assertThrows(IllegalArgumentException.class, () -> Client.connect(config)).getMessage();
      assertTrue(fault.contains("exactly one ASCII token") && !fault.contains("two"), fault);
    }
    ClientConfig pipe = server.config().tokenFile(folder.toString()).build();
    assertThrows(IllegalArgumentException.class, () -> Client.connect(pipe));
  }

  /** As behind a proxy whose server hangs: another connection reaches one that does not. */
  @Test
  void aConnectionWithoutAnswersIsLeft() throws IOException {
    try (Relay relay = new Relay(server.port())) {
      ClientConfig config =
          ClientConfig.builder().address("127.0.0.1:" + relay.port()).timeout(Server.PATIENT).build();
      try (Client client = Client.connect(config)) {
        client.check(ALICE);
        relay.cut();
        Client impatient = client.within(Duration.ofMillis(100));
        for (int i = 0; i < 3; i++) {
          assertThrows(QueuegateException.DeadlineExceeded.class, () -> impatient.check(ALICE));
        }
        client.check(ALICE);
      }
    }
  }

  @Test
  void aCauseWithoutAMessageIsNamed() {
    ClientConfig config = ClientConfig.builder().address("127.0.0.1:1").build();
    Connection connection = new Connection(config, NO_ENVIRONMENT);
    Throwable cause = new IOException("io\nexception", new ClosedChannelException());
    Throwable error = Status.UNAVAILABLE.withCause(cause).asRuntimeException();
    assertEquals(
        "no server at 127.0.0.1:1 (UNAVAILABLE: io: ClosedChannelException)",
        Failures.of(error, connection).getMessage());
    connection.close();
  }

  private static void expectFault(String fault, TlsConfig tls) {
    String found = assertThrows(IllegalArgumentException.class, tls::load).getMessage();
    assertTrue(found.contains(fault), found);
  }

  @Test
  void unavailableIsTriedFourTimes() {
    server.failure.set(Status.UNAVAILABLE);
    try (Client client = Client.connect(server.config().build());
        Client once = Client.connect(server.config().attempts(1).build())) {
      assertThrows(QueuegateException.ServerUnavailable.class, () -> client.check(ALICE));
      assertEquals(4, server.asked.size());
      assertThrows(QueuegateException.ServerUnavailable.class, () -> once.check(ALICE));
      assertEquals(5, server.asked.size());
    }
  }

  @Test
  void timeLimits() {
    server.isSilent = true;
    try (Client client = Client.connect(server.config().timeout(Duration.ofMillis(300)).build())) {
      long start = System.nanoTime();
      QueuegateException.DeadlineExceeded error =
          assertThrows(QueuegateException.DeadlineExceeded.class, () -> client.check(ALICE));
      assertTrue(error.getMessage().startsWith("no response from " + server.address()), error.getMessage());
      assertThrows(
          QueuegateException.DeadlineExceeded.class,
          () -> client.checkMany(Collections.singletonList(ALICE)));
      assertThrows(
          QueuegateException.DeadlineExceeded.class,
          () -> client.within(Duration.ofMillis(100)).check(ALICE));
      assertTrue(System.nanoTime() - start < 30_000_000_000L, "it takes too long");
    }
  }

  @Test
  void interruptsAndClosing() throws Exception {
    server.isSilent = true;
    Client client = Client.connect(server.config().build());
    for (Class<?> expected : Arrays.asList(QueuegateException.Cancelled.class, QueuegateException.Closed.class)) {
      AtomicReference<Throwable> error = new AtomicReference<>();
      int before = server.asked.size();
      Thread thread =
          new Thread(
              () -> {
                try {
                  client.check(ALICE);
                } catch (Throwable thrown) {
                  error.set(thrown);
                }
              });
      thread.start();
      Server.eventually("it asks", () -> server.asked.size() > before);
      if (expected == QueuegateException.Closed.class) {
        client.close();
      } else {
        thread.interrupt();
      }
      thread.join();
      assertEquals(expected, error.get().getClass(), String.valueOf(error.get()));
    }
    assertEquals(
        "the client is closed",
        assertThrows(QueuegateException.Closed.class, () -> client.check(ALICE)).getMessage());
    client.close();
  }

  @Test
  void aTokenIsReadAgain() throws Exception {
    Path file = Server.write(folder.resolve("token"), "first\n");
    try (Client client = Client.connect(server.config().tokenFile(file.toString()).build())) {
      client.check(ALICE);
      assertEquals("Bearer first", lastToken());
      Server.write(file, "second");
      Server.eventually(
          "it is read again",
          () -> {
            client.check(ALICE);
            return lastToken().equals("Bearer second");
          });
      java.nio.file.Files.delete(file);
      Thread.sleep(1_100);
      client.check(ALICE);
      assertEquals("Bearer second", lastToken());
    }
  }

  private String lastToken() {
    List<Metadata> headers = server.headers;
    return headers
        .get(headers.size() - 1)
        .get(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER));
  }

  @Test
  void faultyQuestionsAreNotSent() {
    try (Client client = Client.connect(server.config().build())) {
      QueuegateException.InvalidArgument error =
          assertThrows(
              QueuegateException.InvalidArgument.class,
              () ->
                  client.check(
                      Check.of("", "a\ud800").withGroups(Arrays.asList("g", "")).withRealUser("\udc00")));
      assertEquals(
          Arrays.asList("user.user", "user.groups[1]", "real_user", "queue"),
          Arrays.asList(error.violations().stream().map(Violation::field).toArray()));
      assertEquals(Collections.emptyList(), server.asked);
    }
  }

  @Test
  void anOlderServerKnowsNoColumns() {
    try (Client client = Client.connect(server.config().build())) {
      for (int calls : new int[] {2, 3}) { // it is asked once
        List<Result> results = client.checkMany(Collections.nCopies(Columns.MIN_QUESTIONS, ALICE));
        assertEquals(Columns.MIN_QUESTIONS, results.size());
        assertTrue(results.stream().allMatch(Result::allowed));
        assertEquals(calls, server.headers.size());
      }
    }
  }

  static Stream<Arguments> kinds() {
    return Stream.of(
        Arguments.of(Status.INVALID_ARGUMENT, QueuegateException.InvalidArgument.class),
        Arguments.of(Status.NOT_FOUND, QueuegateException.UnknownPartition.class),
        Arguments.of(Status.PERMISSION_DENIED, QueuegateException.NotPermitted.class),
        Arguments.of(Status.UNAUTHENTICATED, QueuegateException.NotPermitted.class),
        Arguments.of(Status.RESOURCE_EXHAUSTED, QueuegateException.Overloaded.class),
        Arguments.of(
            Status.RESOURCE_EXHAUSTED.withDescription("CLIENT: Sent message larger than max (5 vs. 4)"),
            QueuegateException.MessageTooLarge.class),
        Arguments.of(Status.UNIMPLEMENTED, QueuegateException.ServerFailed.class),
        Arguments.of(Status.INTERNAL, QueuegateException.ServerFailed.class),
        Arguments.of(Status.UNKNOWN, QueuegateException.ServerFailed.class));
  }

  @ParameterizedTest
  @MethodSource
  void kinds(Status status, Class<? extends QueuegateException> expected) {
    server.failure.set(status);
    try (Client client = Client.connect(server.config().build())) {
      assertEquals(status.getCode(), assertThrows(expected, () -> client.check(ALICE)).code());
    }
  }

  @Test
  void aPortWithoutGrpc() throws Exception {
    try (ServerSocket socket = new ServerSocket(0);
        Client client =
            Client.connect(
                ClientConfig.builder()
                    .address("127.0.0.1:" + socket.getLocalPort())
                    .timeout(Duration.ofSeconds(5))
                    .build())) {
      Thread answers =
          new Thread(
              () -> {
                try {
                  for (; ; ) {
                    java.net.Socket accepted = socket.accept();
                    accepted.getOutputStream().write("HTTP/1.1 400 Bad Request\r\n\r\n".getBytes("US-ASCII"));
                    accepted.close();
                  }
                } catch (IOException closed) {
                  return;
                }
              });
      answers.setDaemon(true);
      answers.start();
      QueuegateException.Unavailable error =
          assertThrows(QueuegateException.Unavailable.class, () -> client.check(ALICE));
      assertTrue(
          error.getMessage().contains("is not a gRPC server") || error.getMessage().contains("closed"),
          error.getMessage());
    }
  }
}
