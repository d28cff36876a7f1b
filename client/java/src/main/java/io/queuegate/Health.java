package io.queuegate;

/** The health of a server, or of one of its services. */
public enum Health {
  /** Not known, or known only to a newer client. */
  UNKNOWN,
  /** It answers. */
  SERVING,
  /** It does not answer now. */
  NOT_SERVING,
  /** The server has no such service. */
  SERVICE_UNKNOWN
}
