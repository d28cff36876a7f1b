package io.queuegate.internal;

import io.queuegate.v1.SyncOpened;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.logging.Level;
import java.util.logging.Logger;

/** Logs the events of a gate's streams. Repeated events are logged once. Not safe for concurrent use. */
final class StreamLog {
  static final Logger LOG = Logger.getLogger("io.queuegate.Gate");

  /** The number of distinct reasons logged before a stream recovers. */
  static final int MAX_LOGGED_ENDS = 8;

  private static final String FORBIDDEN =
      "it may not decide locally: either sync.local_decisions is set to forbid, or this version of the client does not"
          + " support the server's rules";

  private final List<String> partitions; // the named ones
  private final Set<String> ends = new HashSet<>(); // the reasons logged since the last stable stream
  private final Set<String> missing = new HashSet<>(); // named partitions missing from the server
  private boolean isForbidden; // whether the server forbids the gate to decide

  StreamLog(List<String> partitions) {
    this.partitions = partitions;
  }

  /** Logs named partitions missing from the server, and why the gate may not decide. */
  void opening(SyncOpened opened) {
    List<String> absent = new ArrayList<>(partitions);
    absent.removeAll(opened.getPartitionsList());
    absent.removeIf(name -> !missing.add(name));
    if (!absent.isEmpty()) {
      warn("A gate follows partitions that the server does not have: " + LogText.listed(absent)
          + ". The server has " + LogText.listed(opened.getPartitionsList()) + ".");
    }
    if (!opened.getLocalDecisions() && !isForbidden) {
      warn("A gate sends every check to the server: " + FORBIDDEN + ".");
    }
    isForbidden = !opened.getLocalDecisions();
  }

  /** Logs why a stream ended, unless that was logged since the last stable stream. */
  void end(String reason) {
    String text = LogText.ofOthers(reason);
    if (ends.size() < MAX_LOGGED_ENDS && ends.add(text)) {
      warn("A gate's stream has ended: " + text);
    }
  }

  /** Logs the recovery from earlier failures, if any. */
  void recovery() {
    if (!ends.isEmpty()) {
      ends.clear();
      LOG.log(Level.INFO, "A gate's stream is connected again.");
    }
  }

  private static void warn(String message) {
    // As a parameter, since texts of the server may contain braces.
    LOG.log(Level.WARNING, "{0}", message);
  }
}
