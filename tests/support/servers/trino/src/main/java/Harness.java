import io.trino.server.Server;

/** Runs a Trino server, as its own launcher does, from the jars in Maven. */
public final class Harness {
  private Harness() {}

  /**
   * @param arguments Trino's release
   */
  public static void main(String[] arguments) {
    new Server().start(arguments[0]);
  }
}
