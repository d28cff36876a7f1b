package io.queuegate.internal;

/** Replaces the client's names of settings in messages, for programs that set them as properties. */
public final class PropertyNames {
  private static final String PREFIX = "queuegate.";
  private static final String[][] NAMES = {
    {"ClientConfig.tls or QUEUEGATE_CA_FILE", "queuegate.tls or queuegate.tls.ca-file"},
    {"TlsConfig.withCaFile", "queuegate.tls.ca-file"},
    {"TlsConfig.withCertificate", "queuegate.tls.certificate-file"},
    {"TlsConfig.withServerName", "queuegate.tls.server-name"},
    {"tokenFile", "queuegate.token-file"},
    {"caFile", "queuegate.tls.ca-file"},
    {"certificateFile", "queuegate.tls.certificate-file"},
    {"keyFile", "queuegate.tls.key-file"},
  };

  private PropertyNames() {}

  /**
   * Returns a message of the client with the names of properties, such as {@code queuegate.tls.ca-file}.
   *
   * @param message the message; may be null
   * @return the same message with other names
   */
  public static String in(String message) {
    String named = String.valueOf(message);
    named = named.matches("(?s)(address|name)\\b.*") ? PREFIX + named : named;
    for (String[] each : NAMES) {
      named = named.replace(each[0], each[1]);
    }
    return named;
  }
}
