package io.queuegate.hadoop;

import java.util.List;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/** The connection of this process to queuegate, with a gate. Safe for concurrent use. */
interface GateLink extends AutoCloseable {
  /**
   * Decides a question with groups that the caller knows. Never waits.
   *
   * @param groups the user's groups; null if they are not known
   */
  Answer decide(QueueCheck check, List<String> groups);

  /** Decides a question with the server's groups, of which the gate keeps a copy. Never waits. */
  Answer decideWithServerGroups(QueueCheck check);

  /**
   * Returns a user's groups from the server, empty for an unknown user; null if the gate has no copy of
   * them under a lease. It then requests them.
   */
  List<String> groups(String user);

  /**
   * Waits until {@link #groups} may have an answer.
   *
   * @param millis how long to wait at most, in milliseconds
   */
  void awaitGroups(String user, long millis) throws InterruptedException;

  /**
   * Calls a function with each user whose groups the server invalidates, and with null for all users,
   * before the gate confirms the invalidation to the server. The function must not wait. Functions that
   * were passed earlier are called as well.
   */
  void onInvalidation(Consumer<String> invalidate);

  /** Returns whether the gate follows a server, which may forbid it to decide. */
  boolean isConnected();

  /** Returns whether the gate has a lease, and so decides. */
  boolean isLive();

  /** Returns the state of the gate in one word. */
  String state();

  /** Reports to the server, for display, how many questions the fallback has decided. */
  void countFallbacks(LongSupplier fallbacks);

  /**
   * Returns the milliseconds since the gate last asked a server that confirmed the policy; -1 without a
   * policy.
   */
  long policyAgeMillis();

  /** Returns the revision of the policy; 0 without one. */
  long revision();

  /**
   * Returns why the gate cannot look groups up until an administrator changes settings, with the remedy;
   * null if no such reason is known.
   */
  String faultOfGroups();

  /**
   * Returns why the gate cannot decide until an administrator changes settings, with the remedy; null if
   * no such reason is known.
   *
   * @param statesGroups whether questions contain groups, which the server must permit
   */
  String fault(boolean statesGroups);

  /** Releases the lease and closes the connection. */
  @Override
  void close();
}
