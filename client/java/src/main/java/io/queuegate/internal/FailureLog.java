package io.queuegate.internal;

import java.util.logging.Level;

/** Logs failures of this process, each kind once. Throws nothing, unlike a logger without memory. */
final class FailureLog {
  private volatile String last; // the class of the last failure; null before the first one

  /** Logs a failure, unless the last one was of the same class. */
  void note(String what, Throwable fault) {
    String kind = fault.getClass().getName();
    if (!kind.equals(last)) {
      last = kind;
      log(what, fault);
    }
  }

  static void log(String what, Throwable fault) {
    try {
      StreamLog.LOG.log(Level.SEVERE, what, fault);
    } catch (Throwable lost) {
      // The failure cannot be logged.
    }
  }
}
