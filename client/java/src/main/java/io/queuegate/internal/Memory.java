package io.queuegate.internal;

import io.queuegate.Check;
import io.queuegate.Decision;
import java.util.List;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * A cache of decisions by question. Each question maps to one slot, which another question may overwrite.
 * Decisions from earlier states are ignored rather than removed.
 */
final class Memory {
  private static final int SLOTS = 1 << 16;

  /** Longer questions are not cached, so that hostile ones cannot fill the memory. */
  private static final int MAX_CHARACTERS = 512;

  private final AtomicReferenceArray<Memo> slots = new AtomicReferenceArray<>(SLOTS);

  /** A cached decision with its question. Immutable. */
  static final class Memo {
    final Check question;
    final Decision decision;
    final long generation; // of the evaluated state
    final Users.Entry entry; // the groups that the decision used; null if none

    Memo(Check question, Decision decision, long generation, Users.Entry entry) {
      this.question = question;
      this.decision = decision;
      this.generation = generation;
      this.entry = entry;
    }
  }

  /** Returns the decision on a question from a state; null if there is none. */
  Memo find(Check question, long generation) {
    Memo memo = slots.get(slot(question));
    boolean isIt = memo != null && memo.generation == generation && memo.question.equals(question);
    return isIt ? memo : null;
  }

  void add(Memo memo) {
    if (size(memo.question) <= MAX_CHARACTERS) {
      slots.lazySet(slot(memo.question), memo);
    }
  }

  private static int slot(Check question) {
    int hash = question.hashCode() * 0x9E3779B9; // spreads texts that differ only at their ends
    return hash >>> 16;
  }

  private static int size(Check question) {
    int sum =
        question.user().length()
            + question.queue().length()
            + question.partition().length()
            + question.realUser().length();
    List<String> groups = question.groups();
    if (groups != null && groups.size() > MAX_CHARACTERS) {
      return Integer.MAX_VALUE;
    }
    for (int i = 0; groups != null && i < groups.size(); i++) {
      sum += groups.get(i).length() + 1;
    }
    return sum;
  }
}
