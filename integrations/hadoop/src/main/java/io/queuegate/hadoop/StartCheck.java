package io.queuegate.hadoop;

import java.time.Duration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Waits for the first policy when the ResourceManager starts. */
final class StartCheck {
  private static final Logger LOG = LoggerFactory.getLogger(StartCheck.class);
  private static final long POLL_MILLIS = 10;

  private StartCheck() {}

  /**
   * Waits until the gate can decide. After the timeout, the fallback decides until it can.
   *
   * @param timeout how long to wait at most
   * @param statesGroups whether questions contain groups, which the server must permit
   * @throws IllegalStateException if an administrator must first change settings; it names them
   */
  static void await(GateLink link, Duration timeout, boolean statesGroups, Fallback fallback) {
    long end = System.nanoTime() + timeout.toNanos();
    while (true) {
      String fault = link.fault(statesGroups);
      if (fault != null) {
        throw new IllegalStateException("queuegate cannot decide: " + fault);
      }
      if (link.isLive()) {
        return;
      }
      if (System.nanoTime() - end >= 0) {
        LOG.warn("queuegate did not send a policy within {} ms ({}). Until it does, the fallback decides: {}.",
          timeout.toMillis(), Key.START_TIMEOUT.text, fallback);
        return;
      }
      try {
        Thread.sleep(POLL_MILLIS);
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        throw new IllegalStateException("interrupted while waiting for queuegate", interrupted);
      }
    }
  }
}
