package io.queuegate;

/** A kind of access to a queue. */
public enum Access {
  /** Submitting applications. */
  SUBMIT,
  /** Administering the queue and its applications. */
  ADMIN
}
