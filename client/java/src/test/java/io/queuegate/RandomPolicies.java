package io.queuegate;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;

/** Random policies of every format, and questions about them, with odd names and ACLs. */
final class RandomPolicies {
  static final List<String> USERS =
      Arrays.asList(
          "alice", "bob", "eve", "yarn", "testuser1", "testuser2", "testuser4", "testuser5", "*", "robot$",
          "carol.x", "system:serviceaccount:ns:sa", "\u00e9", "~knox", "knox", "a\tb", "u\u2028", "1:a",
          "a\u200b", "\ud83d\ude00");
  private static final List<String> GROUPS =
      Arrays.asList(
          "g", "ops", "group1000", "group1001", "901", "d.d", "\u00e9", "alice", "*", "/org/team", "a\u200bb");
  private static final List<String> LEVELS = Arrays.asList("a", "b", "c", "q-1", "prod", "@recovery@");
  private static final List<String> YARN_LEVELS =
      Arrays.asList("A", "root", "x y", "\u00e9", "\uff5e", "\ud83d\ude00", "a", "b", "c", "q-1", "prod",
          "@recovery@");
  private static final List<String> ACLS =
      Arrays.asList(
          " ", "*", " *", "* ", "bob", " g", "eve,carol.x ops", "robot$,alice g", "bob,~carol g,group1001");
  private static final List<String> YUNIKORN_ACLS =
      Arrays.asList(
          "", "system:serviceaccount:ns:sa d.d", "\u00e9,bob", "a$$,bob g$", "*,bob", "\u00a0*\u2003",
          " 901,ops", "\tbob", "1:a,** *x,/org/team", "a\u200b,* a\u200bb", "\u2028,u\u2028 *");
  private static final List<String> YARN_ACLS =
      Arrays.asList(
          "~knox", "bob,~carol g", "bob *", "u g ops", "bob g, ops", "\n bob", "*,bob", "carol  g", "d d",
          " g ops", "bob\t", "\u00e9", "~", " ~knox", "~knox,~ ops", "bob,,eve ,g", "eve\u2003,bob",
          "eve\nbob ops\ng");
  private static final List<String> PARTITIONS =
      Arrays.asList(
          "", "default", "gpu", "any", "[rm]gpu", "[x]gpu", "fair", "fair-hadoop", "capacity",
          "capacity-hadoop", "[rm]default", "tpu");

  private final Random random;

  RandomPolicies(Random random) {
    this.random = random;
  }

  <T> T pick(List<T> from) {
    return from.get(random.nextInt(from.size()));
  }

  boolean oneIn(int count) {
    return random.nextInt(count) == 0;
  }

  /** Returns random paths, parents first. */
  private List<String> paths(List<String> levels) {
    Set<String> paths = new LinkedHashSet<>(Arrays.asList("root", "root." + pick(levels)));
    for (int i = random.nextInt(20); i > 0; i--) {
      String path = pick(new ArrayList<>(paths)) + "." + pick(levels);
      if (path.split("\\.").length < 7) {
        paths.add(path);
      }
    }
    return new ArrayList<>(paths);
  }

  private static List<String> below(String path, List<String> paths) {
    List<String> below = new ArrayList<>();
    for (String each : paths) {
      if (each.startsWith(path + ".") && each.indexOf('.', path.length() + 1) < 0) {
        below.add(each);
      }
    }
    return below;
  }

  private static String last(String path) {
    return path.substring(path.lastIndexOf('.') + 1);
  }

  private String acl(List<String> more) {
    return random.nextBoolean() ? pick(ACLS) : pick(more);
  }

  private static String quoted(String text) {
    StringBuilder out = new StringBuilder("\"");
    for (char sign : text.toCharArray()) {
      out.append(sign < 0x20 || sign > 0x7e || sign == '"' ? String.format("\\u%04x", (int) sign) : sign);
    }
    return out.append('"').toString();
  }

  String yaml() {
    List<String> names = new ArrayList<>(Arrays.asList("default", "gpu", "any"));
    if (random.nextBoolean()) {
      names.add("[rm]gpu");
    }
    StringBuilder text = new StringBuilder("partitions:\n");
    for (String name : names) {
      String resolver = random.nextBoolean() ? "''" : "test";
      text.append("  - name: ").append(quoted(name));
      text.append("\n    usergroupresolver: {type: ").append(resolver).append("}\n    queues:\n");
      yaml(text, "root", paths(LEVELS.subList(0, 5)), "      ");
    }
    return text.toString();
  }

  private void yaml(StringBuilder text, String path, List<String> paths, String indent) {
    text.append(indent).append("- name: ").append(quoted(last(path))).append('\n');
    text.append(indent).append("  submitacl: ").append(quoted(acl(YUNIKORN_ACLS))).append('\n');
    text.append(indent).append("  adminacl: ").append(quoted(acl(YUNIKORN_ACLS))).append('\n');
    List<String> children = below(path, paths);
    if (!children.isEmpty()) {
      text.append(indent).append("  queues:\n");
      children.forEach(child -> yaml(text, child, paths, indent + "    "));
    }
  }

  private static String escaped(String text) {
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("\t", "&#9;").replace("\n", "&#10;");
  }

  String fair() {
    return "<allocations>" + fair("root", paths(YARN_LEVELS)) + "</allocations>";
  }

  private String fair(String path, List<String> paths) {
    StringBuilder text = new StringBuilder("<queue name=\"" + last(path) + "\">");
    text.append("<aclSubmitApps>").append(escaped(acl(YARN_ACLS))).append("</aclSubmitApps>");
    text.append("<aclAdministerApps>").append(escaped(acl(YARN_ACLS))).append("</aclAdministerApps>");
    below(path, paths).forEach(child -> text.append(fair(child, paths)));
    return text.append("</queue>").toString();
  }

  private static String property(String name, String value) {
    return "<property><name>" + name + "</name><value>" + escaped(value) + "</value></property>";
  }

  String capacity() {
    List<String> paths = paths(YARN_LEVELS);
    StringBuilder text = new StringBuilder("<configuration>");
    for (String path : paths) {
      String key = "yarn.scheduler.capacity." + path + ".";
      text.append(property(key + "acl_submit_applications", acl(YARN_ACLS)));
      text.append(property(key + "acl_administer_queue", acl(YARN_ACLS)));
      List<String> names = new ArrayList<>();
      below(path, paths).forEach(child -> names.add(last(child)));
      if (!names.isEmpty()) {
        text.append(property(key + "queues", String.join(",", names)));
      }
    }
    return text + "</configuration>";
  }

  String site() {
    return "<configuration>"
        + property("yarn.acl.enable", String.valueOf(!oneIn(4)))
        + property("yarn.admin.acl", acl(YARN_ACLS))
        + "</configuration>";
  }

  Check question() {
    List<String> levels = new ArrayList<>();
    levels.add(pick(Arrays.asList("root", "root", "root", "root", "Root", "a", "b")));
    for (int i = random.nextInt(5); i > 0; i--) {
      levels.add(oneIn(8) ? pick(Arrays.asList("B", "\u017f")) : pick(YARN_LEVELS));
    }
    String queue = oneIn(6) ? pick(Arrays.asList(".", "@recovery@", " ")) : String.join(".", levels);
    if (oneIn(100)) {
      queue += String.join("", Collections.nCopies(random.nextInt(2_500), ".a"));
    }
    Check check =
        Check.of(pick(USERS), queue)
            .withPartition(pick(PARTITIONS))
            .withAccess(random.nextBoolean() ? Access.SUBMIT : Access.ADMIN);
    if (oneIn(3)) {
      check = check.withRealUser(pick(Arrays.asList("knox", "carol", "bob", "~knox")));
    }
    if (random.nextBoolean()) {
      List<String> groups = new ArrayList<>();
      while (random.nextBoolean()) {
        groups.add(pick(GROUPS));
      }
      check = check.withGroups(groups);
    }
    return check;
  }
}
