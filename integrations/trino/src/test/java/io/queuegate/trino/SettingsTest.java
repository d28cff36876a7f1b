package io.queuegate.trino;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class SettingsTest {
  @TempDir Path folder;

  private static Map<String, String> with(String properties) {
    Map<String, String> config = new HashMap<>(Map.of("queuegate.address", "127.0.0.1:50051"));
    for (String property : properties.split(" ")) {
      String[] parts = property.split("=", 2);
      config.put(parts[0], parts[1]);
    }
    return config;
  }

  private Path secret(String permissions) throws IOException {
    Path file = Files.writeString(folder.resolve("secret"), "secret");
    return Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(permissions));
  }

  private static String fault(String properties) {
    return assertThrows(IllegalArgumentException.class, () -> Settings.of(with(properties))).getMessage();
  }

  @Test
  void theDefaultPartitionIsDefault() {
    assertEquals("default", Settings.of(Map.of("queuegate.address", "127.0.0.1:50051")).partition());
  }

  @ParameterizedTest
  @CsvSource({
    "queuegate.partition=trino, trino",
    "queuegate.timeout=1ms, default",
    "queuegate.timeout=60s, default",
    "queuegate.tls=false, default",
    "queuegate.tls=true, default",
    "queuegate.tls.ca-file=/ca.pem queuegate.tls=true, default",
    "queuegate.address=unix:/run/queuegate.sock, default",
  })
  void accepts(String properties, String partition) {
    assertEquals(partition, Settings.of(with(properties)).partition());
  }

  @ParameterizedTest
  @CsvSource({
    "queuegate.address=, queuegate.address must be set",
    "queuegate.adress=x, 'queuegate.adress' is not a key",
    "file.group-file=x, 'file.group-file' is not a key",
    "queuegate.timeout=2, queuegate.timeout must be",
    "queuegate.timeout=0s, queuegate.timeout must be",
    "queuegate.timeout=61s, queuegate.timeout must be",
    "queuegate.timeout=60001ms, queuegate.timeout must be",
    "queuegate.timeout=99999999999s, queuegate.timeout must be",
    "queuegate.tls=yes, queuegate.tls must be",
    "queuegate.tls=false queuegate.tls.ca-file=/ca.pem, queuegate.tls must be",
    "queuegate.tls.key-file=/k.pem, must be set together",
    "queuegate.tls.certificate-file=/c.pem, must be set together",
    "queuegate.token-file=/missing, queuegate.token-file names /missing",
  })
  void refuses(String properties, String message) {
    String found = fault(properties);
    assertTrue(found.contains(message), found);
  }

  @ParameterizedTest
  @ValueSource(strings = {"rw----r--", "rw-r--r--", "rw-----w-"})
  void refusesSecretsThatOthersCanRead(String permissions) throws IOException {
    Path file = secret(permissions);
    String remedy = " names " + file + ", which other users can read or write: run chmod o= " + file;
    assertEquals("queuegate.token-file" + remedy, fault("queuegate.token-file=" + file));
    String certificate = "queuegate.tls.certificate-file=/c.pem queuegate.tls.key-file=" + file;
    assertEquals("queuegate.tls.key-file" + remedy, fault(certificate));
  }

  @Test
  void acceptsSecretsOfTheGroup() throws IOException {
    Path file = secret("rw-r-----");
    Settings.of(with("queuegate.token-file=" + file));
    Settings.of(with("queuegate.tls.certificate-file=/c.pem queuegate.tls.key-file=" + file));
  }

  @Test
  void theProviderNamesTheKey() throws IOException {
    QueuegateGroupProviderFactory factory = new QueuegateGroupProviderFactory();
    Map<String, String> config =
        with("queuegate.address=example.com:1 queuegate.token-file=" + secret("rw-------"));
    Exception error = assertThrows(IllegalArgumentException.class, () -> factory.create(config));
    assertEquals(
        "refusing to send the token to example.com:1 unencrypted: configure TLS (queuegate.tls or queuegate.tls.ca-file)",
        error.getMessage());
  }

  @ParameterizedTest
  @CsvSource({
    "queuegate.address=nohost, queuegate.address \"nohost\": not a host and a port",
    "queuegate.tls.ca-file=/missing, queuegate.tls.ca-file: cannot read \"/missing\"",
    "queuegate.token-file=/missing, queuegate.token-file names /missing",
  })
  void namesThePropertyOfAnUnusableValue(String properties, String message) {
    IllegalArgumentException error =
        assertThrows(
            IllegalArgumentException.class,
            () -> new QueuegateGroupProviderFactory().create(with(properties)));
    assertTrue(error.getMessage().contains(message), error.getMessage());
  }
}
