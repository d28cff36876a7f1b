package io.queuegate;

import java.util.Objects;

/** The result of a check. A denial is a decision, not an error. Immutable. */
public final class Decision {
  private final boolean allowed;
  private final Reason reason;
  private final String matchedQueue;
  private final String matchedSubject;
  private final long policyRevision;
  private final String evaluatedQueue;
  private final boolean stale;

  /**
   * Creates a decision. Clients and gates do so; tests of their callers may as well.
   *
   * @param allowed whether access is granted
   * @param reason why
   * @param matchedQueue the queue whose ACL matched; empty if none
   * @param matchedSubject the matching entry; empty if none
   * @param policyRevision the revision of the evaluated policy
   * @param evaluatedQueue the ancestor that was evaluated instead of a missing queue; empty if none
   * @param stale whether a gate decided without a lease
   */
  public Decision(
      boolean allowed,
      Reason reason,
      String matchedQueue,
      String matchedSubject,
      long policyRevision,
      String evaluatedQueue,
      boolean stale) {
    this.allowed = allowed;
    this.reason = Objects.requireNonNull(reason, "reason");
    this.matchedQueue = Objects.requireNonNull(matchedQueue, "matchedQueue");
    this.matchedSubject = Objects.requireNonNull(matchedSubject, "matchedSubject");
    this.policyRevision = policyRevision;
    this.evaluatedQueue = Objects.requireNonNull(evaluatedQueue, "evaluatedQueue");
    this.stale = stale;
  }

  /**
   * Returns whether access is granted.
   *
   * @return true only if access is granted
   */
  public boolean allowed() {
    return allowed;
  }

  /**
   * Returns why access is granted or denied.
   *
   * @return the reason
   */
  public Reason reason() {
    return reason;
  }

  /**
   * Returns the queue whose ACL matched.
   *
   * @return the full path; empty if no ACL matched
   */
  public String matchedQueue() {
    return matchedQueue;
  }

  /**
   * Returns the matching entry: a user, a group, {@code *}, or {@code ~name} for the service acting for
   * the user.
   *
   * @return the entry; empty if none matched
   */
  public String matchedSubject() {
    return matchedSubject;
  }

  /**
   * Returns the revision of the evaluated policy.
   *
   * @return the revision
   */
  public long policyRevision() {
    return policyRevision;
  }

  /**
   * Returns a missing queue's nearest existing ancestor, whose ACLs were evaluated instead.
   *
   * @return the full path; empty if the queue exists or will be created, and for the recovery queue
   */
  public String evaluatedQueue() {
    return evaluatedQueue;
  }

  /**
   * Returns whether a {@link Gate} decided without a lease.
   *
   * @return true only for decisions that {@link GateConfig.Builder#stale} permits
   */
  public boolean stale() {
    return stale;
  }

  @Override
  public boolean equals(Object object) {
    if (!(object instanceof Decision)) {
      return false;
    }
    Decision other = (Decision) object;
    return allowed == other.allowed
        && reason == other.reason
        && policyRevision == other.policyRevision
        && stale == other.stale
        && matchedQueue.equals(other.matchedQueue)
        && matchedSubject.equals(other.matchedSubject)
        && evaluatedQueue.equals(other.evaluatedQueue);
  }

  @Override
  public int hashCode() {
    return Objects.hash(
        allowed, reason, matchedQueue, matchedSubject, policyRevision, evaluatedQueue, stale);
  }

  @Override
  public String toString() {
    StringBuilder text = new StringBuilder(allowed ? "allowed: " : "denied: ").append(reason);
    if (!matchedSubject.isEmpty()) {
      text.append(" (").append(matchedSubject);
      text.append(matchedQueue.isEmpty() ? "" : " in " + matchedQueue).append(')');
    }
    text.append(evaluatedQueue.isEmpty() ? "" : ", evaluated " + evaluatedQueue);
    return text.append(", revision ").append(policyRevision).append(stale ? ", stale" : "").toString();
  }
}
