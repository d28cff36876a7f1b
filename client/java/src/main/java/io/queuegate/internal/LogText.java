package io.queuegate.internal;

/** Makes texts of others safe for logs. */
public final class LogText {
  private LogText() {}

  /**
   * Escapes control characters, so that a text cannot forge lines of a log.
   *
   * @param text the text
   * @return the text with escapes
   */
  public static String escaped(String text) {
    StringBuilder out = new StringBuilder(text.length());
    for (int i = 0; i < text.length(); i++) {
      char sign = text.charAt(i);
      boolean isControl = sign < 0x20 || 0x7f <= sign && sign < 0xa0 || sign == 0x2028 || sign == 0x2029;
      if (isControl || Character.isSurrogate(sign) || Character.getType(sign) == Character.FORMAT) {
        out.append(String.format("\\u%04x", (int) sign));
      } else {
        out.append(sign);
      }
    }
    return out.toString();
  }

  /** Returns a server's text, escaped, and truncated if it is too long. */
  static String ofServer(String text) {
    boolean isLong = text.length() > Bounds.MAX_TEXT_CHARACTERS;
    return escaped(isLong ? text.substring(0, Bounds.MAX_TEXT_CHARACTERS) + "..." : text);
  }
}
