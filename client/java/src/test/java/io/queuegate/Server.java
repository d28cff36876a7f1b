package io.queuegate;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;

/** A server process. */
final class Server implements AutoCloseable {
  /** The path of the program queuegate-server, for tests against a real server. */
  static final String VARIABLE = "TEST_QUEUEGATE_SERVER";

  static final String ALL_ROLES = "callers.loopback.roles=check,read,admin,sync";

  /** Not reached even on a busy machine. */
  static final Duration PATIENT = Duration.ofMinutes(5);

  final String address;
  private final Process process;

  private Server(Process process, String address) {
    this.process = process;
    this.address = address;
  }

  /** Starts a server, and waits until it serves. Skips the test if no program is named. */
  static Server start(String... arguments) throws IOException {
    String program = System.getenv(VARIABLE);
    Assumptions.assumeTrue(program != null, "set " + VARIABLE + " to the path of queuegate-server");
    List<String> command = new ArrayList<>(Arrays.asList(program, "serve"));
    command.addAll(Arrays.asList(arguments));
    Path log = Files.createTempFile("queuegate", ".log");
    Process process = new ProcessBuilder(command).redirectError(log.toFile()).start();
    BufferedReader output =
        new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
    String line = output.readLine();
    if (line == null || !line.contains(" on ")) {
      process.destroyForcibly();
      fail("no start: " + line + "\n" + new String(Files.readAllBytes(log), StandardCharsets.UTF_8));
    }
    return new Server(process, line.substring(line.indexOf(" on ") + 4).trim());
  }

  /** Starts a server of a policy, whose local callers have all roles. */
  static Server of(Path policy, String... more) throws IOException {
    List<String> arguments =
        new ArrayList<>(Arrays.asList("--policy", policy.toString(), "--set", ALL_ROLES));
    if (!Arrays.asList(more).contains("--listen")) {
      arguments.addAll(Arrays.asList("--listen", "127.0.0.1:0"));
    }
    arguments.addAll(Arrays.asList(more));
    return start(arguments.toArray(new String[0]));
  }

  ClientConfig config() {
    return ClientConfig.builder().address(address).timeout(PATIENT).build();
  }

  Client connect() {
    return Client.connect(config());
  }

  /** Opens a gate, and waits until it decides. */
  Gate gate() throws Exception {
    return live(Gate.open(GateConfig.builder().client(config()).build()));
  }

  static Gate live(Gate gate) throws Exception {
    eventually("the gate is live", () -> gate.state() == GateState.LIVE);
    return gate;
  }

  @Override
  public void close() throws InterruptedException {
    process.destroy();
    assertTrue(process.waitFor(PATIENT.toMinutes(), TimeUnit.MINUTES), "the server does not end");
  }

  static void eventually(String what, Callable<Boolean> holds) throws Exception {
    long end = System.nanoTime() + PATIENT.toNanos();
    while (!holds.call()) {
      assertTrue(System.nanoTime() < end, "it never holds that " + what);
      Thread.sleep(1);
    }
  }

  /** Waits until a gate uses the expected revision, and asserts the decision. */
  static void expect(Gate gate, String name, Check question, Decision want) throws Exception {
    eventually(
        name + " is decided by the gate",
        () -> {
          Decision got = gate.checkLocally(question);
          if (got == null || got.policyRevision() != want.policyRevision()) {
            return false;
          }
          assertTrue(got.equals(want), name + ": " + got + " instead of " + want);
          return true;
        });
  }

  static Path write(Path path, String content) throws IOException {
    Path next = path.resolveSibling(path.getFileName() + ".new");
    Files.write(next, content.getBytes(StandardCharsets.UTF_8));
    return Files.move(next, path, java.nio.file.StandardCopyOption.ATOMIC_MOVE);
  }

  /** A policy with one queue, to which one user may submit. */
  static String yaml(String user) {
    return "partitions: [{name: default, queues: [{name: root, submitacl: " + user + "}]}]";
  }

  static String example(String file) {
    return Repository.file("examples/" + file).toString();
  }

  static Path tls(String file) {
    return Repository.file(Paths.get("tests/contract/tls", file).toString());
  }
}
