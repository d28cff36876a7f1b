package io.queuegate.internal;

import java.util.Locale;

/** The names of queues, users and partitions. The rules equal those of the server's core in Python. */
public final class Names {
  static final String ROOT = "root";
  static final String WILDCARD = "*"; // everyone
  static final String ANY_NAME = "*"; // any created queue
  static final String PROXY_MARK = "~";
  static final String RECOVERY_QUEUE = "root.@recovery@";
  static final String DEFAULT_PARTITION = "default";

  /** The servers' limit for names. Their limit for paths is larger. */
  static final int MAX_NAME_BYTES = 1_024;

  private static final int MAX_QUEUE_NAME = 64;

  private Names() {}

  /**
   * Returns the name of a partition without the resource manager ID.
   *
   * @param text the name in a question, such as {@code [rm]gpu}
   * @return the name, such as {@code gpu}; {@code default} if the text is empty
   */
  public static String partition(String text) {
    if (text.isEmpty()) {
      return DEFAULT_PARTITION;
    }
    int end = text.charAt(0) == '[' ? text.indexOf(']') : -1;
    return text.substring(end + 1);
  }

  /**
   * Returns whether YuniKorn accepts a user name in a request with groups: a letter or _, followed by
   * letters, digits and some punctuation, and optionally a final dollar sign.
   */
  static boolean isUser(String text) {
    int length = text.endsWith("$") ? text.length() - 1 : text.length();
    if (length == 0 || text.charAt(0) != '_' && !isLetter(text.charAt(0))) {
      return false;
    }
    for (int i = 1; i < length; i++) {
      char sign = text.charAt(i);
      if (!isLetter(sign) && !isDigit(sign) && ":#/_.@-".indexOf(sign) < 0) {
        return false;
      }
    }
    return true;
  }

  private static boolean isLetter(char sign) {
    return 'a' <= sign && sign <= 'z' || 'A' <= sign && sign <= 'Z';
  }

  private static boolean isDigit(char sign) {
    return '0' <= sign && sign <= '9';
  }

  /** Returns the full path of a YuniKorn queue in lower case; null if the text is not a path. */
  static String yuniKornPath(String text) {
    int level = 0; // the length of the current level
    for (int i = 0; i < text.length(); i++) {
      char sign = text.charAt(i);
      if (sign == '.') {
        if (level == 0) {
          return null;
        }
        level = 0;
      } else if (isLetter(sign) || isDigit(sign) || "_:#/@-".indexOf(sign) >= 0) {
        if (++level > MAX_QUEUE_NAME) {
          return null;
        }
      } else { // including all non-ASCII characters
        return null;
      }
    }
    if (level == 0) {
      return null;
    }
    String path = text.toLowerCase(Locale.ROOT);
    return path.equals(ROOT) || path.startsWith("root.") ? path : null;
  }

  /**
   * Returns the full path of a YARN queue; null if a level is empty. Paths are case-sensitive, {@code
   * root.} is optional, and a level may contain any character but a dot.
   */
  static String yarnPath(String text) {
    if (text.isEmpty()
        || text.charAt(0) == '.'
        || text.charAt(text.length() - 1) == '.'
        || text.contains("..")) {
      return null;
    }
    return text.equals(ROOT) || text.startsWith("root.") ? text : "root." + text;
  }

  /** Returns the path of the parent queue; empty for the root. */
  static String parent(String path) {
    return path.substring(0, Math.max(0, path.lastIndexOf('.')));
  }

  /** Returns the first levels of a path, or the path if it has fewer; empty for none. */
  static String prefix(String path, int levels) {
    int end = 0;
    for (int level = 0; level < levels; level++) {
      end = path.indexOf('.', level == 0 ? 0 : end + 1);
      if (end < 0) {
        return path;
      }
    }
    return path.substring(0, end);
  }

  /** Returns whether a lower-case path is at or below the recovery queue. */
  static boolean isRecovery(String path) {
    return path.startsWith(RECOVERY_QUEUE)
        && (path.length() == RECOVERY_QUEUE.length() || path.charAt(RECOVERY_QUEUE.length()) == '.');
  }

  /**
   * Returns whether a server certainly accepts a text as a name: it is short, and contains no control
   * characters or line separators.
   */
  static boolean isPlain(String text) {
    int length = text.length();
    if (length == 0 || length > MAX_NAME_BYTES) {
      return false;
    }
    boolean isAscii = true;
    for (int i = 0; i < length; i++) {
      char sign = text.charAt(i);
      if (sign < 0x20 || 0x7f <= sign && sign < 0xa0 || sign == 0x2028 || sign == 0x2029 || sign == 0xfffd) {
        return false;
      }
      isAscii &= sign < 0x80;
    }
    return isAscii || utf8Length(text) <= MAX_NAME_BYTES;
  }

  /** Returns the length of a text in UTF-8; more than any limit if it is not valid Unicode. */
  static int utf8Length(String text) {
    int sum = 0;
    for (int i = 0; i < text.length(); i++) {
      char sign = text.charAt(i);
      if (!Character.isSurrogate(sign)) {
        sum += sign < 0x80 ? 1 : sign < 0x800 ? 2 : 3;
      } else if (Character.isHighSurrogate(sign)
          && i + 1 < text.length()
          && Character.isLowSurrogate(text.charAt(i + 1))) {
        sum += 4;
        i++;
      } else {
        return Integer.MAX_VALUE;
      }
    }
    return sum;
  }

  /** Compares by code points, as servers sort. */
  static int compare(String a, String b) {
    int length = Math.min(a.length(), b.length());
    for (int i = 0; i < length; i++) {
      char x = a.charAt(i);
      char y = b.charAt(i);
      if (x != y) {
        boolean isAbove = Character.isSurrogate(x);
        // Surrogates encode code points above all others.
        return isAbove == Character.isSurrogate(y) ? Character.compare(x, y) : isAbove ? 1 : -1;
      }
    }
    return Integer.compare(a.length(), b.length());
  }
}
