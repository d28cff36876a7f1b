package io.queuegate.internal;

import io.queuegate.Access;
import io.queuegate.Decision;
import io.queuegate.Reason;
import io.queuegate.v1.QueueNaming;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The queues of a partition, and the compiled chains of their ACLs, which decide who may use a queue. Not
 * changed once {@link Tables} has read it, which validates all numbers.
 *
 * <p>The decisions must equal those of the server's core in Python ({@code queuegate.policy}).
 */
final class Partition {
  /**
   * The version of the decision rules, incremented together with {@code RULES} of {@code
   * queuegate.policy} whenever the decisions of any policy change.
   */
  static final int RULES = 3;

  /** The start of a chain that only the server has. */
  static final int UNKNOWN_LEVEL = -1;

  private static final int RECOVERY_LEVEL = -2;

  QueueNaming naming;
  int ambiguous; // the first level of the chain for short names of several queues
  Map<String, Integer> names; // the numbers of users, groups and services
  int[] listed; // numbers of names, ascending in each list of a level
  int[] above; // by level: the distance to the level above; 0 at the end of a chain
  int[] depth; // by level: the number of levels in the path of its queue; 0 for the cluster
  int[] starts; // three by level: where its users, groups and services start in listed; and one more
  Reason[] ends; // by level: of the decision at the end of a chain
  String[] paths; // by queue
  Map<String, Integer> queues; // by path
  int[] sorted; // the queues by path
  int[] submit; // by queue, followed by created queues: the first level; UNKNOWN_LEVEL if unknown
  int[] admin;
  Map<Integer, Map<String, Integer>> created; // created queues, by parent and name
  Map<String, String> shortNames; // null if there are none

  /** A requested queue, with the chain to evaluate for it. */
  static final class Target {
    final String path; // canonical
    final String evaluated; // the nearest existing ancestor of a missing queue; empty if none
    final int level; // the first level of the chain

    Target(String path, String evaluated, int level) {
      this.path = path;
      this.evaluated = evaluated;
      this.level = level;
    }
  }

  boolean isYarn() {
    return naming == QueueNaming.QUEUE_NAMING_YARN || naming == QueueNaming.QUEUE_NAMING_YARN_SHORT_NAMES;
  }

  /** Returns whether a request with groups may name this user. */
  boolean acceptsUser(String name) {
    return isYarn()
        || Names.isUser(name)
        || naming == QueueNaming.QUEUE_NAMING_YUNIKORN_ANY_USER && !name.equals(Names.WILDCARD);
  }

  /** Returns the target of a request; null if the text is not a path or only the server can decide. */
  Target locate(String text, Access access) {
    String path = text;
    Integer number = queues.get(text);
    if (number == null) {
      path = path(text);
      if (path == null) {
        return null;
      }
      number = queues.get(path);
    }
    if (access == Access.SUBMIT && !isYarn() && Names.isRecovery(path)) {
      return new Target(path, "", RECOVERY_LEVEL);
    }
    String evaluated = "";
    if (number != null) {
      path = paths[number];
    } else if (path.indexOf('.') < 0 && !path.equals(Names.ROOT)) { // a name shared by several queues
      return new Target(path, "", ambiguous);
    } else {
      String nearest = path;
      while (number == null) {
        nearest = Names.parent(nearest);
        number = queues.get(nearest);
      }
      if (created.containsKey(number)) {
        number = created(number, path.substring(nearest.length() + 1));
        if (number == null) {
          return null;
        }
      } else {
        evaluated = paths[number];
      }
    }
    int level = (access == Access.SUBMIT ? submit : admin)[number];
    return level == UNKNOWN_LEVEL ? null : new Target(path, evaluated, level);
  }

  /** Returns the created queue below a queue; null if only the server knows it. */
  private Integer created(Integer number, String below) {
    Integer found = number;
    for (String name : below.split("\\.", -1)) {
      Map<String, Integer> children = created.get(found);
      if (children == null) {
        return null;
      }
      found = children.containsKey(name) ? children.get(name) : children.get(Names.ANY_NAME);
      if (found == null) {
        return null;
      }
    }
    return found;
  }

  /** Returns the canonical form of a text that is not a queue's path; null if it is not a path. */
  private String path(String text) {
    if (!isYarn()) {
      return Names.yuniKornPath(text);
    }
    String path = shortNames == null ? null : shortNames.get(text);
    return path == null ? Names.yarnPath(text) : path;
  }

  /**
   * Decides whether a user may use a target.
   *
   * <p>Users and wildcards on all levels are evaluated before groups, and the service acting for the user
   * only if nothing else grants access. If several levels match, the nearest wins. Nobody may submit to
   * YuniKorn's recovery queue or below it.
   *
   * @param groups the user's groups; null if unknown
   * @return the decision; null if it depends on unknown groups
   */
  Decision decide(Target at, String user, List<String> groups, String realUser, long revision) {
    if (at.level == RECOVERY_LEVEL) {
      return new Decision(false, Reason.RECOVERY_QUEUE, Names.RECOVERY_QUEUE, "", revision, "", false);
    }
    Decision decision = walk(at, user, groups, revision);
    if (!realUser.isEmpty() && (decision == null || !decision.allowed())) {
      Integer name = names.get(realUser);
      for (int level = at.level; name != null && above[level] > 0; level -= above[level]) {
        if (lists(level, 2, name)) {
          return grant(Reason.USER, at, level, Names.PROXY_MARK + realUser, revision);
        }
      }
    }
    return decision;
  }

  private Decision walk(Target at, String user, List<String> groups, long revision) {
    Integer name = names.get(user);
    boolean hasGroups = false;
    int level = at.level;
    for (; above[level] > 0; level -= above[level]) {
      if (name != null && lists(level, 0, name)) {
        return grant(Reason.USER, at, level, user, revision);
      }
      hasGroups |= starts[3 * level + 1] < starts[3 * level + 2];
    }
    if (!hasGroups) {
      return end(at, level, revision);
    }
    if (groups == null) {
      return null;
    }
    for (level = at.level; above[level] > 0; level -= above[level]) {
      if (starts[3 * level + 1] == starts[3 * level + 2]) {
        continue;
      }
      for (String group : groups) {
        Integer number = names.get(group);
        if (number != null && lists(level, 1, number)) {
          return grant(Reason.GROUP, at, level, group, revision);
        }
      }
    }
    return end(at, level, revision);
  }

  private Decision end(Target at, int level, long revision) {
    Reason reason = ends[level];
    if (reason == Reason.WILDCARD || reason == Reason.CLUSTER_ADMIN) {
      return grant(reason, at, level, Names.WILDCARD, revision);
    }
    return new Decision(reason.grants(), reason, "", "", revision, at.evaluated, false);
  }

  /** Returns the decision of a level. Depth 0 represents the cluster's administrators. */
  private Decision grant(Reason reason, Target at, int level, String subject, long revision) {
    String queue = Names.prefix(at.path, depth[level]);
    Reason given = queue.isEmpty() ? Reason.CLUSTER_ADMIN : reason;
    return new Decision(true, given, queue, subject, revision, at.evaluated, false);
  }

  private boolean lists(int level, int kind, int name) {
    return Arrays.binarySearch(listed, starts[3 * level + kind], starts[3 * level + kind + 1], name) >= 0;
  }

  /**
   * Returns the sorted paths of the queues at or below a target that a user may use.
   *
   * @param groups the user's groups; null if unknown
   * @return the paths; null if a decision depends on unknown groups
   */
  List<String> usable(Target at, Access access, String user, List<String> groups, String realUser) {
    List<String> usable = new ArrayList<>();
    // By level, because queues without their own ACLs share their parent's chain.
    Map<Integer, Boolean> allowed = new HashMap<>();
    for (int number : sorted) {
      String path = paths[number];
      boolean isBelow = path.startsWith(at.path) && path.length() > at.path.length();
      if (!path.equals(at.path) && !(isBelow && path.charAt(at.path.length()) == '.')) {
        continue;
      }
      Target queue = locate(path, access);
      if (queue == null) {
        return null;
      }
      Boolean isAllowed = allowed.get(queue.level);
      if (isAllowed == null) {
        Decision decision = decide(queue, user, groups, realUser, 0);
        if (decision == null) {
          return null;
        }
        isAllowed = decision.allowed();
        allowed.put(queue.level, isAllowed);
      }
      if (isAllowed) {
        usable.add(path);
      }
    }
    return usable;
  }
}
