package io.queuegate.internal;

import java.util.ArrayList;
import java.util.List;

/** Makes texts of others safe for logs. */
public final class LogText {
  /** The number of names that {@link #listed} contains. */
  static final int MAX_LISTED = 10;

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

  /**
   * Lists names of a server.
   *
   * @param names the names
   * @return the first 10 names, with escapes; {@code none} if there are none
   */
  public static String listed(List<String> names) {
    List<String> some = new ArrayList<>();
    for (String name : names.subList(0, Math.min(names.size(), MAX_LISTED))) {
      some.add(ofOthers(name));
    }
    return names.isEmpty() ? "none" : String.join(", ", some) + (names.size() > MAX_LISTED ? ", ..." : "");
  }
}
