package io.queuegate;

import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import org.junit.jupiter.api.Assumptions;

/** Files of the repository around this module. */
public final class Repository {
  private Repository() {}

  public static Path file(String path) {
    return Paths.get("../..").resolve(path).toAbsolutePath().normalize();
  }

  /** Returns the Python whose environment has queuegate. Skips the test if none is named. */
  public static String python() {
    String program = System.getenv(Server.VARIABLE);
    Assumptions.assumeTrue(program != null, "needs " + Server.VARIABLE);
    return Paths.get(program).resolveSibling("python").toString();
  }

  public static JsonElement vectors(String name) throws IOException {
    try (Reader reader = Files.newBufferedReader(file("tests/vectors/" + name), StandardCharsets.UTF_8)) {
      return JsonParser.parseReader(reader);
    }
  }
}
