package io.queuegate.internal;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.PosixFilePermission;
import java.util.Set;

/** Checks files with secrets, for programs that name them in properties. */
public final class SecretFiles {
  private SecretFiles() {}

  /**
   * Checks that this process can read a file with a secret, and that only its owner and group can use it.
   *
   * @param property the name of the property
   * @param path the path of the file; empty if the property is not set
   * @return the path
   * @throws IllegalArgumentException if other users can read or write the file, or this process cannot read
   *     it; the message names the property
   */
  public static String checked(String property, String path) {
    if (path.isEmpty()) {
      return path;
    }
    try {
      Path file = Paths.get(path);
      if (!Files.isReadable(file)) {
        throw new IllegalArgumentException(
            property + " names " + file + ", which does not exist or which the user "
                + System.getProperty("user.name") + " cannot read: correct the path, or make this user its owner");
      }
      Set<PosixFilePermission> permissions = Files.getPosixFilePermissions(file);
      if (permissions.contains(PosixFilePermission.OTHERS_READ)
          || permissions.contains(PosixFilePermission.OTHERS_WRITE)) {
        throw new IllegalArgumentException(
            property + " names " + file + ", which other users can read or write: run chmod o= " + file);
      }
    } catch (IOException | InvalidPathException | UnsupportedOperationException error) {
      throw new IllegalArgumentException(property + " names a file that cannot be read: " + error, error);
    }
    return path;
  }
}
