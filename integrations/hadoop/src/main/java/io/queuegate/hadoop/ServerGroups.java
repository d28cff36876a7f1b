package io.queuegate.hadoop;

import io.queuegate.internal.LogText;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.function.BooleanSupplier;

/** Looks users' groups up in queuegate, for the mappings of Hadoop and Spark. */
final class ServerGroups {
  private static final ThreadLocal<Boolean> MUST_NOT_WAIT = new ThreadLocal<>();

  private final GateLink link;
  private final Duration timeout;

  /**
   * @param timeout how long a look-up may wait
   */
  ServerGroups(GateLink link, Duration timeout) {
    this.link = link;
    this.timeout = timeout;
  }

  /**
   * Returns a decision of YARN itself.
   *
   * @param mayWait whether look-ups of this thread may wait for queuegate meanwhile
   */
  static boolean decision(BooleanSupplier yarn, boolean mayWait) {
    if (mayWait) {
      return yarn.getAsBoolean();
    }
    MUST_NOT_WAIT.set(true);
    try {
      return yarn.getAsBoolean();
    } finally {
      MUST_NOT_WAIT.remove();
    }
  }

  /**
   * Returns the groups of a user, starting with the primary group; empty if the directory knows no such
   * user.
   *
   * @throws IOException if they could not be looked up, which is never an empty list
   */
  List<String> of(String user) throws IOException {
    List<String> groups = link.groups(user);
    if (groups == null && MUST_NOT_WAIT.get() == null) {
      try {
        link.awaitGroups(user, timeout.toMillis());
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
      }
      groups = link.groups(user);
    }
    if (groups == null) {
      String fault = link.faultOfGroups();
      throw new IOException("queuegate could not look up the groups of " + LogText.ofOthers(user) + ": "
        + (fault != null ? fault : link.isConnected() ? "the directory is unavailable, or did not answer within "
          + timeout.toMillis() + " ms (" + Key.LOOKUP_TIMEOUT.text + ")" : "the gate is " + link.state()));
    }
    return groups;
  }
}
