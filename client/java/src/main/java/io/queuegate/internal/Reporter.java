package io.queuegate.internal;

import io.queuegate.v1.LocalDecision;
import io.queuegate.v1.RefusedDecision;
import io.queuegate.v1.SyncReport;
import io.queuegate.v1.SyncReported;
import io.queuegate.v1.SyncRequest;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * Reports an outbox's decisions, one report at a time. Decisions are delivered at least once, except those
 * rejected by the server, which are set aside. A report that closes the stream is split until the faulty
 * decision is isolated. Not safe for concurrent use.
 */
final class Reporter {
  private static final int MAX_REPORTED = 1_000; // decisions in a report

  private final Outbox outbox;
  // The oldest segment's unconfirmed decisions in order, grouped by report.
  private final Deque<List<LocalDecision>> groups = new ArrayDeque<>();
  private long inFlight; // the ID of the report that contains the first group; 0 if it has not been sent
  private long last;

  Reporter(Outbox outbox) {
    this.outbox = outbox;
  }

  /** Switches to another stream, starting with the first unconfirmed decision. */
  void restart() {
    inFlight = 0;
  }

  /** Returns the next report; null if there is nothing to report, or a report is unconfirmed. */
  SyncRequest next() {
    if (inFlight != 0) {
      return null;
    }
    if (groups.isEmpty()) {
      List<LocalDecision> decisions = outbox.oldest();
      for (int start = 0; start < decisions.size(); start += MAX_REPORTED) {
        groups.addLast(decisions.subList(start, Math.min(start + MAX_REPORTED, decisions.size())));
      }
      if (groups.isEmpty()) {
        return null;
      }
    }
    inFlight = ++last;
    SyncReport report = SyncReport.newBuilder().setId(last).addAllDecisions(groups.getFirst()).build();
    return SyncRequest.newBuilder().setReport(report).build();
  }

  /** Handles the confirmation of a report. */
  void confirm(SyncReported answer) {
    if (inFlight == 0 || answer.getId() != inFlight) {
      return;
    }
    List<LocalDecision> group = groups.getFirst();
    SortedMap<Integer, String> faults = new TreeMap<>();
    for (RefusedDecision refused : answer.getRefusedList()) {
      if (refused.getIndex() >= 0 && refused.getIndex() < group.size()) {
        faults.put(refused.getIndex(), refused.getFault());
      }
    }
    if (!faults.isEmpty()) {
      List<LocalDecision> rejected = new ArrayList<>();
      for (int index : faults.keySet()) {
        rejected.add(group.get(index));
      }
      outbox.reject(rejected, faults.get(faults.firstKey()));
    }
    outbox.confirm(group.size() - faults.size());
    drop();
  }

  /** Splits the report in flight, which closed the stream, or sets aside a single decision. */
  void split(String fault) {
    if (inFlight == 0) {
      return;
    }
    List<LocalDecision> group = groups.getFirst();
    int half = group.size() / 2;
    if (half == 0) {
      outbox.reject(Collections.singletonList(group.get(0)), fault);
      drop();
      return;
    }
    inFlight = 0;
    groups.removeFirst();
    groups.addFirst(group.subList(half, group.size()));
    groups.addFirst(group.subList(0, half));
  }

  private void drop() {
    inFlight = 0;
    groups.removeFirst();
    if (groups.isEmpty()) {
      outbox.removeOldest();
    }
  }
}
