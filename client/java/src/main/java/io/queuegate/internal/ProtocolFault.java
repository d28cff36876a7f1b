package io.queuegate.internal;

/** A message from the server violates the protocol or the bounds. */
final class ProtocolFault extends Exception {
  ProtocolFault(String message) {
    super(message);
  }
}
