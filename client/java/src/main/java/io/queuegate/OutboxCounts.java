package io.queuegate;

import io.queuegate.internal.Outbox;

/** Counts the decisions that a gate has had to report since it was opened. Immutable. */
public final class OutboxCounts {
  private final Outbox.Counts counts;

  OutboxCounts(Outbox.Counts counts) {
    this.counts = counts;
  }

  /**
   * Returns the size of all files in the outbox.
   *
   * @return the size in bytes
   */
  public long waitingBytes() {
    return counts.waitingBytes;
  }

  /**
   * Returns the number of decisions that are in the server's audit log.
   *
   * @return the number
   */
  public long confirmed() {
    return counts.confirmed;
  }

  /**
   * Returns the number of decisions that did not fit or could not be written. The checks were sent to the
   * server.
   *
   * @return the number
   */
  public long notKept() {
    return counts.notKept;
  }

  /**
   * Returns the number of decisions that the server rejected. They are kept in the file {@code rejected}.
   *
   * @return the number
   */
  public long rejected() {
    return counts.rejected;
  }

  /**
   * Returns the number of files that could not be read completely. A copy with the suffix {@code .damaged}
   * is kept.
   *
   * @return the number
   */
  public long damaged() {
    return counts.damaged;
  }
}
