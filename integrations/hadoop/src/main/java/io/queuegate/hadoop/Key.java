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
  TOKEN_FILE("token-file", ""),
  TLS("tls", "false"),
  TLS_CA_FILE("tls.ca-file", ""),
  TLS_CERTIFICATE_FILE("tls.certificate-file", ""),
  TLS_KEY_FILE("tls.key-file", ""),
  TLS_SERVER_NAME("tls.server-name", "");

  /** The beginning of the name of each key. */
  static final String PREFIX = "queuegate.";

  /** The full name. */
  final String text;
  /** The value if the key is not set; empty for none. */
  final String defaultValue;

  Key(String name, String defaultValue) {
    this.text = PREFIX + name;
    this.defaultValue = defaultValue;
  }
}
