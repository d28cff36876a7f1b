package io.queuegate.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.queuegate.Check;
import io.queuegate.Decision;
import io.queuegate.Reason;
import io.queuegate.Repository;
import io.queuegate.v1.LocalDecision;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.function.Consumer;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Decisions on disk: none is lost silently. */
class OutboxTest {
  private static final Decision ALLOWED = new Decision(true, Reason.USER, "root", "", 1, "", false);
  private static final String PYTHON_GATE =
      "import sys\nfrom queuegate.gate.outbox import Outbox\n"
          + "try:\n    box = Outbox(sys.argv[1])\n    print('open', flush=True)\n    sys.stdin.read()\n"
          + "except BlockingIOError:\n    print('in use', flush=True)\n";

  @TempDir Path folder;

  private static boolean add(Outbox outbox, String user) {
    return outbox.add(Check.of(user, "root"), "default", ALLOWED);
  }

  /** Reports everything, and returns the users. */
  private static List<String> take(Outbox outbox) {
    List<String> users = new ArrayList<>();
    for (List<LocalDecision> all = outbox.oldest(); !all.isEmpty(); all = outbox.oldest()) {
      all.forEach(each -> users.add(each.getUser()));
      outbox.removeOldest();
    }
    return users;
  }

  private List<String> files() throws IOException {
    try (Stream<Path> all = Files.list(folder)) {
      return all.map(each -> each.getFileName().toString()).sorted().collect(Collectors.toList());
    }
  }

  @Test
  void decisionsOutliveTheProcess() throws IOException {
    Locale before = Locale.getDefault();
    Locale.setDefault(Locale.forLanguageTag("ar-EG-u-nu-arab")); // whose digits are not ASCII
    try (Outbox outbox = new Outbox(folder)) {
      assertTrue(add(outbox, "alice"));
    } finally {
      Locale.setDefault(before);
    }
    assertEquals(Arrays.asList("00000000000000000001.decisions", "lock"), files());
    try (Outbox outbox = new Outbox(folder)) {
      assertTrue(add(outbox, "bob"));
      assertEquals(Arrays.asList("alice", "bob"), take(outbox));
      assertEquals(0, outbox.counts().waitingBytes);
    }
    assertEquals(Collections.singletonList("lock"), files());
  }

  @Test
  void aDecisionThatIsNotCompleteIsKeptForInspection() throws IOException {
    try (Outbox outbox = new Outbox(folder)) {
      add(outbox, "alice");
      add(outbox, "bob");
    }
    Path segment = folder.resolve("00000000000000000001.decisions");
    try (RandomAccessFile file = new RandomAccessFile(segment.toFile(), "rw")) {
      file.setLength(file.length() - 3);
    }
    try (Outbox outbox = new Outbox(folder)) {
      assertEquals(Collections.singletonList("alice"), take(outbox));
      assertEquals(1, outbox.counts().damaged);
    }
    assertEquals(Arrays.asList("00000000000000000001.damaged", "lock"), files());
  }

  @Test
  void decisionsThatDoNotFitAreNotUsed() throws IOException {
    try (RandomAccessFile large = new RandomAccessFile(folder.resolve("rejected").toFile(), "rw")) {
      large.setLength(Outbox.MAX_OUTBOX_BYTES);
    }
    try (Outbox outbox = new Outbox(folder)) {
      assertFalse(add(outbox, "alice"));
      assertEquals(1, outbox.counts().notKept);
    }
    try (Outbox outbox = new Outbox(folder)) {
      outbox.close();
      assertFalse(add(outbox, "alice"));
    }
  }

  /** A decision is void if its policy is replaced or its lease expires before it is on disk. */
  @Test
  void aWriteThatTakesTime() throws IOException {
    List<Consumer<World>> changes =
        Arrays.asList(
            w -> w.receive(World.whole("default", "bob")), w -> w.now += 5 * World.SECOND, w -> {});
    for (int i = 0; i < changes.size(); i++) {
      Path own = folder.resolve(String.valueOf(i));
      Consumer<World> change = changes.get(i);
      try (Outbox outbox = new Outbox(own)) {
        World w = new World(outbox).live(World.whole("default", "alice"));
        w.receive(World.opened(o -> o.setResumed(true).setReportDecisions(true)));
        Files.createFile(own.resolve("00000000000000000001.decisions"));
        assertNull(w.ask("alice", "root")); // the name is taken
        Handler recovery = onLog(record -> change.accept(w)); // after the next write
        StreamLog.LOG.addHandler(recovery);
        try {
          assertEquals(i < 2, w.ask("alice", "root") == null);
        } finally {
          StreamLog.LOG.removeHandler(recovery);
        }
        assertEquals(Collections.singletonList("alice"), take(outbox));
      }
    }
  }

  static Handler onLog(Consumer<LogRecord> action) {
    return new Handler() {
      @Override
      public void publish(LogRecord record) {
        action.accept(record);
      }

      @Override
      public void flush() {}

      @Override
      public void close() {}
    };
  }

  /** Also of gates in Python and Go. */
  @Test
  void aFolderHasOneUser() throws Exception {
    try (Outbox outbox = new Outbox(folder)) {
      add(outbox, "alice");
      for (int i = 0; i < 2; i++) { // the failed attempts do not end the lock
        assertThrows(IOException.class, () -> new Outbox(folder.resolve("../" + folder.getFileName())));
        assertEquals("in use", first(python()));
      }
    }
    Process gate = python();
    assertEquals("open", first(gate));
    IOException error = assertThrows(IOException.class, () -> new Outbox(folder));
    assertTrue(error.getMessage().contains("in use by another gate"), error.getMessage());
    gate.getOutputStream().close();
    gate.waitFor();
    try (Outbox outbox = new Outbox(folder)) {
      assertEquals(Collections.singletonList("alice"), take(outbox));
    }
  }

  private Process python() throws IOException {
    return new ProcessBuilder(Repository.python(), "-c", PYTHON_GATE, folder.toString())
        .redirectError(ProcessBuilder.Redirect.INHERIT)
        .start();
  }

  private static String first(Process process) throws IOException {
    return new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))
        .readLine();
  }
}
