package io.queuegate.trino;

import io.queuegate.ClientConfig;
import io.queuegate.TlsConfig;
import io.queuegate.internal.SecretFiles;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The settings in {@code etc/group-provider.properties}.
 *
 * @param client how to connect
 * @param partition the partition whose resolver is asked
 */
record Settings(ClientConfig client, String partition) {
  private static final String PREFIX = "queuegate.";
  private static final Pattern DURATION = Pattern.compile("([1-9]\\d{0,4})(ms|s)");
  private static final Duration MAX_TIMEOUT = Duration.ofMinutes(1);

  /**
   * Reads the settings.
   *
   * @throws IllegalArgumentException if a property is unknown, missing or invalid, or other users can read
   *     a secret; it names the key
   */
  static Settings of(Map<String, String> config) {
    Map<String, String> left = new HashMap<>(config);
    String address = take(left, "address", "");
    if (address.isEmpty()) {
      throw new IllegalArgumentException(
          PREFIX + "address must be set, such as queuegate.example.com:50051");
    }
    String partition = take(left, "partition", "default");
    Duration timeout = timeout(take(left, "timeout", "2s"));
    String tokenFile = take(left, "token-file", "");
    String tls = take(left, "tls", "");
    String caFile = take(left, "tls.ca-file", "");
    String certificateFile = take(left, "tls.certificate-file", "");
    String keyFile = take(left, "tls.key-file", "");
    String serverName = take(left, "tls.server-name", "");
    for (String key : left.keySet()) {
      throw new IllegalArgumentException(
          "'" + key + "' is not a key of queuegate: correct its name or remove it");
    }
    boolean hasKeys = !(caFile + certificateFile + keyFile + serverName).isEmpty();
    if (!tls.isEmpty() && !tls.equals("true") && !(tls.equals("false") && !hasKeys)) {
      throw new IllegalArgumentException(
          PREFIX + "tls must be true or false, and not false beside other keys of TLS");
    }
    if (certificateFile.isEmpty() != keyFile.isEmpty()) {
      throw new IllegalArgumentException(
          PREFIX + "tls.certificate-file and " + PREFIX + "tls.key-file must be set together");
    }
    ClientConfig.Builder client =
        ClientConfig.builder()
            .address(address)
            .timeout(timeout)
            .tokenFile(SecretFiles.checked(PREFIX + "token-file", tokenFile));
    if (hasKeys || tls.equals("true")) {
      TlsConfig encrypted = TlsConfig.defaults().withCaFile(caFile).withServerName(serverName);
      SecretFiles.checked(PREFIX + "tls.key-file", keyFile);
      client.tls(keyFile.isEmpty() ? encrypted : encrypted.withCertificate(certificateFile, keyFile));
    }
    return new Settings(client.build(), partition);
  }

  private static String take(Map<String, String> left, String key, String defaultValue) {
    String value = left.remove(PREFIX + key);
    return value == null ? defaultValue : value.trim();
  }

  private static Duration timeout(String text) {
    Matcher matcher = DURATION.matcher(text);
    if (matcher.matches()) {
      long number = Long.parseLong(matcher.group(1));
      Duration timeout =
          matcher.group(2).equals("s") ? Duration.ofSeconds(number) : Duration.ofMillis(number);
      if (timeout.compareTo(MAX_TIMEOUT) <= 0) {
        return timeout;
      }
    }
    throw new IllegalArgumentException(
        PREFIX + "timeout must be 1ms to 60s, such as 500ms or 2s, not '" + text + "'");
  }
}
