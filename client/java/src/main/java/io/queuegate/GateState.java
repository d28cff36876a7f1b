package io.queuegate;

/** Whether a gate decides in this process. */
public enum GateState {
  /** The gate has no policy, and sends checks to the server. */
  CONNECTING,
  /** The gate decides. */
  LIVE,
  /**
   * The gate's lease has expired. It sends checks to the server, or uses old state if {@link
   * GateConfig.Builder#stale} permits.
   */
  EXPIRED,
  /** The server forbids the gate to decide. */
  FORBIDDEN,
  /** The gate is closed. */
  CLOSED
}
