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

  /**
   * Escapes a text of a server or a caller, and truncates it if it is too long.
   *
   * @param text the text
   * @return at most 1 024 characters of the text, with escapes
   */
  public static String ofOthers(String text) {
    boolean isLong = text.length() > Bounds.MAX_TEXT_CHARACTERS;
    return escaped(isLong ? text.substring(0, Bounds.MAX_TEXT_CHARACTERS) + "..." : text);
  }
}
