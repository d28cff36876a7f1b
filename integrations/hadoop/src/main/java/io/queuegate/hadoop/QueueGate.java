package io.queuegate.hadoop;

/** Decides questions about queues in this process. Safe for concurrent use. */
interface QueueGate {
  /** Decides a question. Never waits. */
  Answer decide(QueueCheck check);

  /**
   * Waits until the user's groups are known, after {@link Answer#GROUPS_UNKNOWN}.
   *
   * @param millis how long to wait at most, in milliseconds
   * @throws InterruptedException if this thread is interrupted
   */
  void awaitGroups(String user, long millis) throws InterruptedException;
}
