package io.queuegate.hadoop;

/** Texts from callers, for logs and messages. */
final class Text {
  private static final int MAX_CHARACTERS = 256;

  private Text() {}

  /** Returns a text on one line, without control characters, and at most 256 characters long. */
  static String escaped(String text) {
    StringBuilder escaped = new StringBuilder();
    for (int i = 0; i < text.length() && i < MAX_CHARACTERS; i++) {
      char character = text.charAt(i);
      boolean isPlain = !Character.isISOControl(character) && Character.getType(character) != Character.FORMAT
        && character != '\u2028' && character != '\u2029';
      escaped.append(isPlain ? String.valueOf(character) : String.format("\\u%04x", (int) character));
    }
    return text.length() <= MAX_CHARACTERS ? escaped.toString() : escaped + "...";
  }
}
