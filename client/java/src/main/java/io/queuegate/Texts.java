package io.queuegate;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** Finds the faults of texts in requests, and makes texts safe for messages and logs. */
final class Texts {
  private Texts() {}

  /** Returns whether a text is valid Unicode. protobuf would replace unpaired surrogates silently. */
  static boolean isUnicode(String text) {
    for (int i = 0; i < text.length(); i++) {
      char sign = text.charAt(i);
      if (!Character.isSurrogate(sign)) {
        continue;
      }
      if (Character.isLowSurrogate(sign)
          || ++i == text.length()
          || !Character.isLowSurrogate(text.charAt(i))) {
        return false;
      }
    }
    return true;
  }

  /** Returns a text in quotation marks, with escapes. */
  static String quoted(String text) {
    return '"' + io.queuegate.internal.LogText.escaped(text) + '"';
  }

  /** The rejected fields of a request. */
  static final class Faults {
    private final List<Violation> violations = new ArrayList<>();

    void required(String field, String text) {
      if (text == null || text.isEmpty()) {
        add(field, "must not be empty");
      } else {
        optional(field, text);
      }
    }

    void optional(String field, String text) {
      if (text == null) {
        add(field, "must not be null");
      } else if (!isUnicode(text)) {
        add(field, "is not valid Unicode");
      }
    }

    void groups(List<String> groups) {
      List<String> stated = groups == null ? Collections.<String>emptyList() : groups;
      for (int i = 0; i < stated.size(); i++) {
        required("user.groups[" + i + "]", stated.get(i));
      }
    }

    void add(String field, String description) {
      violations.add(new Violation(field, description));
    }

    /** Adds the faults of a question of a batch. */
    void addAll(int index, Faults faults) {
      for (Violation each : faults.violations) {
        add("checks[" + index + "]." + each.field(), each.description());
      }
    }

    /** Throws InvalidArgument if there are faults. */
    void raise() {
      if (!violations.isEmpty()) {
        throw Failures.invalid(violations);
      }
    }

    boolean isEmpty() {
      return violations.isEmpty();
    }
  }
}
