package io.queuegate.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.queuegate.Check;
import io.queuegate.Decision;
import io.queuegate.Reason;
import io.queuegate.v1.RefusedDecision;
import io.queuegate.v1.SyncReport;
import io.queuegate.v1.SyncReported;
import io.queuegate.v1.SyncRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Decisions leave an outbox only once the server has them. */
class ReporterTest {
  private static final Decision ALLOWED = new Decision(true, Reason.USER, "root", "", 1, "", false);

  @TempDir Path folder;
  private Outbox outbox;
  private Reporter reporter;

  @BeforeEach
  void open() throws IOException {
    outbox = new Outbox(folder);
    reporter = new Reporter(outbox);
  }

  @AfterEach
  void close() {
    outbox.close();
  }

  private void add(int decisions) {
    for (int i = 0; i < decisions; i++) {
      assertTrue(outbox.add(Check.of("user" + i, "root"), "default", ALLOWED));
    }
  }

  private SyncReport report() {
    SyncRequest request = reporter.next();
    return request == null ? null : request.getReport();
  }

  private void confirm(SyncReport report) {
    reporter.confirm(SyncReported.newBuilder().setId(report.getId()).build());
  }

  @Test
  void aReportIsConfirmedByItsOwnAnswer() {
    add(1);
    SyncReport report = report();
    reporter.confirm(SyncReported.newBuilder().setId(report.getId() + 1).build());
    assertNull(report(), "it is in flight");
    assertEquals(0, outbox.counts().confirmed);
    confirm(report);
    assertEquals(1, outbox.counts().confirmed);
    assertEquals(0, outbox.counts().waitingBytes);
  }

  @Test
  void aNewStreamReportsAgain() {
    add(1);
    SyncReport lost = report();
    reporter.restart();
    assertEquals(lost.getDecisionsList(), report().getDecisionsList());
  }

  @Test
  void aFileIsKeptUntilAllItsDecisionsAreConfirmed() {
    add(1_001);
    SyncReport first = report();
    assertEquals(1_000, first.getDecisionsCount());
    confirm(first);
    assertTrue(outbox.counts().waitingBytes > 0);
    SyncReport second = report();
    assertEquals("user1000", second.getDecisions(0).getUser());
    confirm(second);
    assertEquals(0, outbox.counts().waitingBytes);
    assertNull(report());
  }

  @Test
  void rejectedDecisionsAreSetAside() {
    add(3);
    SyncReport report = report();
    SyncReported.Builder answer = SyncReported.newBuilder().setId(report.getId());
    for (int index : new int[] {1, 1, 3, -1}) { // twice, and two that were not in the report
      answer.addRefused(RefusedDecision.newBuilder().setIndex(index).setFault("odd"));
    }
    reporter.confirm(answer.build());
    assertEquals(2, outbox.counts().confirmed);
    assertEquals(1, outbox.counts().rejected);
    assertTrue(Files.exists(folder.resolve("rejected")));
  }
}
