package io.queuegate.hadoop;

/** A gate's answer to a question. */
enum Answer {
  /** Access is granted. */
  ALLOWED,
  /** Access is denied. */
  DENIED,
  /** Access is granted from state whose lease has expired, which the setting {@code stale} permits. */
  ALLOWED_BY_STALE_STATE,
  /** Access is denied from such state. */
  DENIED_BY_STALE_STATE,
  /** The decision depends on the user's groups, which are not known yet. */
  GROUPS_UNKNOWN,
  /** The gate has no lease, or only the server can decide. */
  UNDECIDED;

  /** Returns whether the gate has decided. */
  boolean isDecision() {
    return this != GROUPS_UNKNOWN && this != UNDECIDED;
  }

  /** Returns whether access is granted. */
  boolean isAllowed() {
    return this == ALLOWED || this == ALLOWED_BY_STALE_STATE;
  }

  /** Returns whether the gate decided from state whose lease has expired. */
  boolean isStale() {
    return this == ALLOWED_BY_STALE_STATE || this == DENIED_BY_STALE_STATE;
  }
}
