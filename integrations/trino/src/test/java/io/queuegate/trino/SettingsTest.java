package io.queuegate.trino;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SettingsTest {
  private static Map<String, String> with(String properties) {
    Map<String, String> config = new HashMap<>(Map.of("queuegate.address", "127.0.0.1:50051"));
    for (String property : properties.split(" ")) {
      String[] parts = property.split("=", 2);
      config.put(parts[0], parts[1]);
    }
    return config;
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
    "queuegate.tls.certificate-file=/c.pem queuegate.tls.key-file=/k.pem, default",
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
  })
  void refuses(String properties, String message) {
    IllegalArgumentException error =
        assertThrows(IllegalArgumentException.class, () -> Settings.of(with(properties)));
    assertTrue(error.getMessage().contains(message), error.getMessage());
  }

  @ParameterizedTest
  @CsvSource({
    "queuegate.address=nohost, queuegate.address \"nohost\": not a host and a port",
    "queuegate.tls.ca-file=/missing, queuegate.tls.ca-file: cannot read \"/missing\"",
    "queuegate.token-file=/missing, queuegate.token-file \"/missing\" does not exist",
  })
  void namesThePropertyOfAnUnusableValue(String properties, String message) {
    IllegalArgumentException error =
        assertThrows(
            IllegalArgumentException.class,
            () -> new QueuegateGroupProviderFactory().create(with(properties)));
    assertTrue(error.getMessage().contains(message), error.getMessage());
  }
}
