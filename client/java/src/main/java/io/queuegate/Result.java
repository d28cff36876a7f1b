package io.queuegate;

import java.util.Objects;

/** The result of a check in a batch: a decision or an error. Immutable. */
public final class Result {
  private final Decision decision;
  private final QueuegateException error;

  private Result(Decision decision, QueuegateException error) {
    this.decision = decision;
    this.error = error;
  }

  static Result of(Decision decision) {
    return new Result(Objects.requireNonNull(decision), null);
  }

  static Result failed(QueuegateException error) {
    return new Result(null, Objects.requireNonNull(error));
  }

  /**
   * Returns the decision.
   *
   * @return the decision
   * @throws QueuegateException as a single call for this check would have thrown
   */
  public Decision get() {
    if (error != null) {
      throw error;
    }
    return decision;
  }

  /**
   * Returns whether access is granted. An error never grants access, but is not a denial either.
   *
   * @return true only if access is granted
   */
  public boolean allowed() {
    return error == null && decision.allowed();
  }

  /**
   * Returns the error.
   *
   * @return the error that a single call for this check would have thrown; null if there is a decision
   */
  public QueuegateException error() {
    return error;
  }

  @Override
  public String toString() {
    return error == null ? decision.toString() : error.toString();
  }
}
