package io.queuegate.hadoop;

/** The settings, as they are written in {@code queuegate.properties} or in Hadoop's site files. */
enum Key {
  ADDRESS("address", ""),
  PARTITION("partition", "default"),
  FALLBACK("fallback", ""),
  STALE("stale", "0s"),
  START_TIMEOUT("start-timeout", "10s"),
  GROUP_TIMEOUT("group-timeout", "500ms"),
  GROUPS_REFRESH("groups.refresh", "5s"),
  GROUPS_LIFETIME("groups.lifetime", "60s"),
  GROUPS_MAX_USERS("groups.max-users", "10000"),
  LOOKUP_TIMEOUT("lookup-timeout", "2s"),
  NAME("name", ""),
  OUTBOX("outbox", ""),
  TOKEN_FILE("token-file", ""),
  TLS("tls", "false"),
  TLS_CA_FILE("tls.ca-file", ""),
  TLS_CERTIFICATE_FILE("tls.certificate-file", ""),
  TLS_KEY_FILE("tls.key-file", ""),
  TLS_SERVER_NAME("tls.server-name", "");

  /** The beginning of the name of each key. */
  static final String PREFIX = "queuegate.";

  /** What the client's messages say, each with what an administrator of Hadoop knows. */
  private static final String[][] WORDS = {
    {"ClientConfig.tls or QUEUEGATE_CA_FILE", "queuegate.tls or queuegate.tls.ca-file"},
    {"TlsConfig.withCaFile", "queuegate.tls.ca-file"},
    {"TlsConfig.withCertificate", "queuegate.tls.certificate-file"},
    {"TlsConfig.withServerName", "queuegate.tls.server-name"},
    {"GateConfig.outbox", "queuegate.outbox"},
    {"tokenFile", "queuegate.token-file"},
    {"caFile", "queuegate.tls.ca-file"},
    {"certificateFile", "queuegate.tls.certificate-file"},
    {"keyFile", "queuegate.tls.key-file"},
    {"A gate sends every check to the server", "The gate does not decide"},
  };

  /** The full name. */
  final String text;
  /** The value if the key is not set; empty for none. */
  final String defaultValue;

  Key(String name, String defaultValue) {
    this.text = PREFIX + name;
    this.defaultValue = defaultValue;
  }

  /** Returns a message of the client with these keys in place of the client's names for them. */
  static String named(String message) {
    String named = message.matches("(?s)(address|name|outbox)\\b.*") ? PREFIX + message : message;
    for (String[] each : WORDS) {
      named = named.replace(each[0], each[1]);
    }
    return named;
  }
}
