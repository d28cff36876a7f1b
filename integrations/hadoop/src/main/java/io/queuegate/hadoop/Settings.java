package io.queuegate.hadoop;

import io.queuegate.internal.Bounds;
import io.queuegate.internal.LogText;
import io.queuegate.internal.SecretFiles;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.Reader;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.EnumMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;

/**
 * The settings of this module, from {@code queuegate.properties} in the class path, which contains
 * Hadoop's configuration folder, and from the same keys in Hadoop's site files. Immutable.
 */
final class Settings {
  /** The name of the file. */
  static final String FILE = "queuegate.properties";

  private static final Pattern DURATION = Pattern.compile("(\\d{1,9})(ms|s|m|h)");
  private static final Duration MAX_WAIT = Duration.ofMinutes(10);
  private static final int MAX_USERS = 1_000_000;

  final String address;
  final String partition;
  /** Null if not set: only the authorizer needs it. */
  final Fallback fallback;
  final Duration stale;
  final Duration startTimeout;
  final Duration groupTimeout;
  final Duration groupsRefresh;
  final Duration groupsLifetime;
  final int maxUsers;
  final Duration lookupTimeout;
  final String name;
  final String tokenFile;
  final boolean tls;
  final String caFile;
  final String certificateFile;
  final String keyFile;
  final String serverName;

  private final Map<Key, String> values;

  private Settings(Map<Key, String> values) {
    this.values = values;
    address = required(Key.ADDRESS);
    partition = required(Key.PARTITION);
    fallback = values.containsKey(Key.FALLBACK) ? parsed(Key.FALLBACK, Fallback::of) : null;
    stale = duration(Key.STALE, Duration.ZERO, Duration.ofNanos(Bounds.MAX_STALE));
    startTimeout = duration(Key.START_TIMEOUT, Duration.ZERO, MAX_WAIT);
    groupTimeout = duration(Key.GROUP_TIMEOUT, Duration.ZERO, Duration.ofSeconds(10));
    groupsRefresh = duration(Key.GROUPS_REFRESH, Duration.ofMillis(100), Duration.ofHours(1));
    groupsLifetime = duration(Key.GROUPS_LIFETIME, groupsRefresh, Duration.ofHours(1));
    maxUsers = parsed(Key.GROUPS_MAX_USERS, Settings::userCount);
    lookupTimeout = duration(Key.LOOKUP_TIMEOUT, Duration.ofMillis(1), MAX_WAIT);
    name = text(Key.NAME);
    tokenFile = secretFile(Key.TOKEN_FILE);
    caFile = text(Key.TLS_CA_FILE);
    certificateFile = text(Key.TLS_CERTIFICATE_FILE);
    keyFile = secretFile(Key.TLS_KEY_FILE);
    serverName = text(Key.TLS_SERVER_NAME);
    boolean hasTlsKeys = !(caFile + certificateFile + keyFile + serverName).isEmpty();
    tls = parsed(Key.TLS, Settings::isTrue) || hasTlsKeys;
    if (values.containsKey(Key.TLS) && !parsed(Key.TLS, Settings::isTrue) && hasTlsKeys) {
      throw fault(Key.TLS, "must not be false beside other keys of TLS");
    }
    if (certificateFile.isEmpty() != keyFile.isEmpty()) {
      throw fault(Key.TLS_CERTIFICATE_FILE, "and " + Key.TLS_KEY_FILE.text + " must be set together");
    }
  }

  /**
   * Reads the settings.
   *
   * @throws IllegalArgumentException if a key is unknown, missing, set twice or invalid, a file cannot be
   *     read, or other users can read a secret; it names the key or the file
   */
  static Settings of(Configuration configuration) {
    Map<String, String> texts = new TreeMap<>();
    URL file = configuration.getResource(FILE);
    if (file != null) {
      Properties properties = new Properties();
      try (InputStream stream = file.openStream();
        Reader reader = new InputStreamReader(stream, StandardCharsets.UTF_8)) {
        properties.load(reader);
      } catch (IOException | IllegalArgumentException error) {
        throw new IllegalArgumentException(file + " cannot be read: " + error.getMessage(), error);
      }
      for (String name : properties.stringPropertyNames()) {
        texts.put(name, properties.getProperty(name).trim());
      }
    }
    for (Map.Entry<String, String> property : configuration) {
      String name = property.getKey();
      if (!name.startsWith(Key.PREFIX)) {
        continue;
      }
      if (texts.containsKey(name)) {
        throw new IllegalArgumentException(
          name + " is set in " + FILE + " and in Hadoop's site files: remove one of them");
      }
      texts.put(name, configuration.getTrimmed(name, ""));
    }
    return new Settings(byKey(texts));
  }

  /**
   * Returns the fallback.
   *
   * @throws IllegalArgumentException if it is not set, because both values have consequences that an
   *     administrator must choose
   */
  Fallback requiredFallback() {
    if (fallback == null) {
      throw fault(Key.FALLBACK, "must be set to deny (no access while queuegate cannot decide) or "
        + "yarn-acl (YARN's own ACLs then decide)");
    }
    return fallback;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Settings && values.equals(((Settings) other).values);
  }

  @Override
  public int hashCode() {
    return values.hashCode();
  }

  private static Map<Key, String> byKey(Map<String, String> texts) {
    Map<Key, String> values = new EnumMap<>(Key.class);
    for (Key key : Key.values()) {
      String text = texts.remove(key.text);
      if (text != null && !text.isEmpty()) {
        values.put(key, text);
      }
    }
    for (String unknown : texts.keySet()) {
      throw new IllegalArgumentException(
        LogText.ofOthers(unknown) + " is not a key of queuegate: correct its name or remove it");
    }
    return values;
  }

  private String text(Key key) {
    return values.getOrDefault(key, key.defaultValue);
  }

  private String required(Key key) {
    if (text(key).isEmpty()) {
      throw fault(key, "must be set");
    }
    return text(key);
  }

  private <T> T parsed(Key key, Function<String, T> parse) {
    try {
      return parse.apply(text(key));
    } catch (IllegalArgumentException error) {
      throw fault(key, error.getMessage() + ", not '" + LogText.ofOthers(text(key)) + "'");
    }
  }

  private Duration duration(Key key, Duration least, Duration most) {
    Duration value = parsed(key, Settings::duration);
    if (value.compareTo(least) < 0 || value.compareTo(most) > 0) {
      throw fault(key, "must be " + shown(least) + " to " + shown(most) + ", not '" + text(key) + "'");
    }
    return value;
  }

  private String secretFile(Key key) {
    return SecretFiles.checked(key.text, text(key));
  }

  private static Duration duration(String text) {
    Matcher matcher = DURATION.matcher(text);
    if (!matcher.matches()) {
      throw new IllegalArgumentException("must be a number with a unit, such as 500ms, 5s, 2m or 1h");
    }
    long number = Long.parseLong(matcher.group(1));
    switch (matcher.group(2)) {
      case "ms":
        return Duration.ofMillis(number);
      case "s":
        return Duration.ofSeconds(number);
      case "m":
        return Duration.ofMinutes(number);
      default:
        return Duration.ofHours(number);
    }
  }

  private static String shown(Duration duration) {
    return duration.toMillis() % 1000 == 0 ? duration.getSeconds() + "s" : duration.toMillis() + "ms";
  }

  private static int userCount(String text) {
    if (!text.matches("\\d{1,7}") || Integer.parseInt(text) < 1 || Integer.parseInt(text) > MAX_USERS) {
      throw new IllegalArgumentException("must be a number from 1 to " + MAX_USERS);
    }
    return Integer.parseInt(text);
  }

  private static boolean isTrue(String text) {
    if (!text.equals("true") && !text.equals("false")) {
      throw new IllegalArgumentException("must be true or false");
    }
    return text.equals("true");
  }

  private static IllegalArgumentException fault(Key key, String fault) {
    return new IllegalArgumentException(key.text + " " + fault);
  }
}
