package io.queuegate.hadoop;

/** Decides questions that the gate cannot decide. */
enum Fallback {
  /** Access is denied. */
  DENY("deny"),
  /** YARN's own ACLs decide, as without queuegate. */
  YARN_ACL("yarn-acl");

  private final String text;

  Fallback(String text) {
    this.text = text;
  }

  /**
   * Returns the fallback that a setting names.
   *
   * @throws IllegalArgumentException if it is neither {@code deny} nor {@code yarn-acl}
   */
  static Fallback of(String text) {
    for (Fallback fallback : values()) {
      if (fallback.text.equals(text)) {
        return fallback;
      }
    }
    throw new IllegalArgumentException("must be deny or yarn-acl");
  }

  @Override
  public String toString() {
    return text;
  }
}
