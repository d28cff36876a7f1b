package io.queuegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class SettingsTest {
  @TempDir
  Path folder;

  static Configuration with(String... keysAndValues) {
    Configuration configuration = new Configuration(false);
    configuration.set("queuegate.address", "127.0.0.1:50051");
    for (int i = 0; i < keysAndValues.length; i += 2) {
      configuration.set(keysAndValues[i], keysAndValues[i + 1]);
    }
    return configuration;
  }

  /** Returns a configuration with queuegate.properties in the class path. */
  private Configuration withFile(String text) throws IOException {
    Files.write(folder.resolve("queuegate.properties"), text.getBytes(StandardCharsets.UTF_8));
    Configuration configuration = new Configuration(false);
    configuration.setClassLoader(new URLClassLoader(new URL[] {folder.toUri().toURL()}));
    return configuration;
  }

  @Test
  void readsTheFile() throws IOException {
    Settings settings = Settings.of(withFile(
        "queuegate.address = unix:/run/queuegate.sock \nqueuegate.fallback=deny\nqueuegate.stale=2m\n"));
    assertEquals("unix:/run/queuegate.sock", settings.address);
    assertEquals(Fallback.DENY, settings.requiredFallback());
    assertEquals(Duration.ofMinutes(2), settings.stale);
    assertEquals("default", settings.partition);
  }

  @Test
  void aKeyInBothPlacesIsAnError() throws IOException {
    Configuration configuration = withFile("queuegate.address=a:1\n");
    configuration.set("queuegate.address", "a:1");
    Exception error = assertThrows(IllegalArgumentException.class, () -> Settings.of(configuration));
    assertEquals("queuegate.address is set in queuegate.properties and in Hadoop's site files: "
        + "remove one of them", error.getMessage());
  }

  @Test
  void aFileThatIsNotOneIsAnError() throws IOException {
    Configuration configuration = withFile("queuegate.address=\\u12\n");
    Exception error = assertThrows(IllegalArgumentException.class, () -> Settings.of(configuration));
    assertTrue(error.getMessage().contains("queuegate.properties cannot be read"), error.getMessage());
  }

  static Stream<Arguments> faults() {
    return Stream.of(
        arguments("queuegate.address", " ", "queuegate.address must be set"),
        arguments("queuegate.adress", "x", "queuegate.adress is not a key of queuegate: correct its name or remove it"),
        arguments("queuegate.\nx", "x", "queuegate.\\u000ax is not a key of queuegate: correct its name or remove it"),
        arguments("queuegate.fallback", "allow", "queuegate.fallback must be deny or yarn-acl, not 'allow'"),
        arguments("queuegate.stale", "5", "queuegate.stale must be a number with a unit, such as 500ms, 5s, 2m or 1h, not '5'"),
        arguments("queuegate.stale", "25h", "queuegate.stale must be 0s to 86400s, not '25h'"),
        arguments("queuegate.start-timeout", "-1s", "queuegate.start-timeout must be a number with a unit, such as 500ms, 5s, 2m or 1h, not '-1s'"),
        arguments("queuegate.group-timeout", "11s", "queuegate.group-timeout must be 0s to 10s, not '11s'"),
        arguments("queuegate.groups.lifetime", "1s", "queuegate.groups.lifetime must be 5s to 3600s, not '1s'"),
        arguments("queuegate.groups.max-users", "0", "queuegate.groups.max-users must be a number from 1 to 1000000, not '0'"),
        arguments("queuegate.groups.max-users", "many", "queuegate.groups.max-users must be a number from 1 to 1000000, not 'many'"),
        arguments("queuegate.tls", "yes", "queuegate.tls must be true or false, not 'yes'"),
        arguments("queuegate.tls.certificate-file", "/c", "queuegate.tls.certificate-file and queuegate.tls.key-file must be set together"),
        arguments("queuegate.token-file", "/missing", "queuegate.token-file names /missing, which does not exist or which the user " + System.getProperty("user.name") + " cannot read: correct the path, or make this user its owner"));
  }

  @ParameterizedTest
  @MethodSource("faults")
  void namesTheFault(String key, String value, String message) {
    Exception error = assertThrows(IllegalArgumentException.class, () -> Settings.of(with(key, value)));
    assertEquals(message, error.getMessage());
  }

  @Test
  void tlsMustNotBeOffBesideItsKeys() {
    Exception error = assertThrows(IllegalArgumentException.class,
        () -> Settings.of(with("queuegate.tls", "false", "queuegate.tls.ca-file", "/ca.pem")));
    assertEquals("queuegate.tls must not be false beside other keys of TLS", error.getMessage());
  }

  @Test
  void keysOfTlsImplyTls() {
    assertTrue(Settings.of(with("queuegate.tls.ca-file", "/ca.pem")).tls);
    assertTrue(Settings.of(with("queuegate.tls", "true")).tls);
  }

  @Test
  void theFallbackMustBeChosen() {
    Settings settings = Settings.of(with());
    Exception error = assertThrows(IllegalArgumentException.class, settings::requiredFallback);
    assertEquals("queuegate.fallback must be set to deny (no access while queuegate cannot decide) or "
        + "yarn-acl (YARN's own ACLs then decide)", error.getMessage());
  }

  @ParameterizedTest
  @ValueSource(strings = {"rw----r--", "rw-r--r--", "rw-----w-"})
  void refusesSecretsThatOthersCanRead(String permissions) throws IOException {
    Path file = Files.write(folder.resolve("secret"), new byte[] {1});
    for (String key : new String[] {"queuegate.token-file", "queuegate.tls.key-file"}) {
      Configuration configuration = with(key, file.toString(),
          "queuegate.tls.certificate-file", "/c", "queuegate.tls.key-file", file.toString());
      Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(permissions));
      Exception error = assertThrows(IllegalArgumentException.class, () -> Settings.of(configuration));
      assertEquals(key + " names " + file
          + ", which other users can read or write: run chmod o= " + file, error.getMessage());
      Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r-----"));
      assertEquals(file.toString(), Settings.of(configuration).keyFile);
    }
  }

  @Test
  void equalSettingsShareAConnection() {
    assertEquals(Settings.of(with()), Settings.of(with()));
    assertNotEquals(Settings.of(with()), Settings.of(with("queuegate.partition", "other")));
  }

  @Test
  void theReferenceListsEachKeyWithItsDefault() throws IOException {
    String page = new String(Files.readAllBytes(
        Paths.get("../../docs/reference/hadoop.md")), StandardCharsets.UTF_8);
    Matcher row = Pattern.compile("(?m)^\\| `(queuegate\\.[a-z.-]+)` \\| (?:`([^`]*)`)? *\\|").matcher(page);
    List<String> documented = new ArrayList<>();
    while (row.find()) {
      documented.add(row.group(1) + "=" + (row.group(2) == null ? "" : row.group(2)));
    }
    List<String> keys = new ArrayList<>();
    for (Key key : Key.values()) {
      keys.add(key.text + "=" + key.defaultValue);
    }
    assertEquals(keys, documented);
  }
}
