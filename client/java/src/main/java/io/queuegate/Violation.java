package io.queuegate;

/** A rejected field of a request. Immutable. */
public final class Violation {
  private final String field;
  private final String description;

  Violation(String field, String description) {
    this.field = field;
    this.description = description;
  }

  /**
   * Returns the path of the field in the request.
   *
   * @return for example {@code user.groups[3]}
   */
  public String field() {
    return field;
  }

  /**
   * Describes the fault.
   *
   * @return the fault in words
   */
  public String description() {
    return description;
  }

  @Override
  public String toString() {
    return field + " " + description;
  }
}
