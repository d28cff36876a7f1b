package io.queuegate.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Secrets that other users can read are refused. */
class SecretFilesTest {
  private static final String PROPERTY = "queuegate.token-file";

  @TempDir Path folder;

  @ParameterizedTest
  @CsvSource({
    "rw-------, true", "r--r-----, true", "rw-rw----, true", "rw----r--, false", "rw-r--r--, false", "rw-----w-, false",
  })
  void aSecretIsForItsOwnerAndGroup(String permissions, boolean isAccepted) throws IOException {
    Path file = Files.createFile(folder.resolve("token"));
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(permissions));
    if (isAccepted) {
      assertEquals(file.toString(), SecretFiles.checked(PROPERTY, file.toString()));
    } else {
      assertEquals(
          PROPERTY + " names " + file + ", which other users can read or write: run chmod o= " + file,
          fault(file.toString()));
    }
  }

  @Test
  void anAbsentFileIsAFault() {
    assertEquals("", SecretFiles.checked(PROPERTY, ""));
    String absent = fault(folder + "/absent");
    assertTrue(absent.startsWith(PROPERTY + " names " + folder + "/absent, which does not exist or "), absent);
    String invalid = fault("a\0b");
    assertTrue(invalid.startsWith(PROPERTY + " names a file that cannot be read: "), invalid);
  }

  private static String fault(String path) {
    return assertThrows(IllegalArgumentException.class, () -> SecretFiles.checked(PROPERTY, path)).getMessage();
  }
}
