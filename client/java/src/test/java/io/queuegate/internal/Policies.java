package io.queuegate.internal;

import io.queuegate.v1.CreatedQueueColumns;
import io.queuegate.v1.LevelColumns;
import io.queuegate.v1.PolicyPart;
import io.queuegate.v1.QueueColumns;
import io.queuegate.v1.QueueNaming;
import io.queuegate.v1.Reason;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;

/**
 * Writes the tables of a policy with plain ACLs, as a server does: {@code users groups}, with commas, or
 * {@code *}; {@code ~name} is a service.
 */
public final class Policies {
  private final PolicyPart.Builder part = PolicyPart.newBuilder().setNaming(QueueNaming.QUEUE_NAMING_YUNIKORN);
  private final LevelColumns.Builder levels = LevelColumns.newBuilder();
  private final QueueColumns.Builder queues = QueueColumns.newBuilder();
  private final CreatedQueueColumns.Builder created = CreatedQueueColumns.newBuilder();
  private final Map<String, Integer> names = new HashMap<>();
  private final Map<String, int[]> starts = new HashMap<>(); // by path: for submit and admin
  private final Map<String, Integer> numbers = new HashMap<>(); // by path
  private final List<Boolean> isOpen = new ArrayList<>(); // by level: whether its chain allows everyone

  public Policies() {
    this(Reason.REASON_NO_MATCH);
  }

  /** Starts with the reason of the decision above the root. */
  public Policies(Reason aboveRoot) {
    level(0, 0, "", "", "");
    levels.addEndReasons(aboveRoot);
    isOpen.set(0, aboveRoot != Reason.REASON_NO_MATCH);
    starts.put("", new int[] {0, 0});
  }

  public Policies naming(QueueNaming naming) {
    part.setNaming(naming);
    return this;
  }

  /** Adds administrators of the cluster above the root, before any queue. */
  public Policies cluster(String acl) {
    int level = chain(0, 0, acl);
    starts.put("", new int[] {level, level});
    return this;
  }

  /** Adds a queue, parents first. A missing root is added. */
  public Policies queue(String path, String submit, String admin) {
    if (numbers.isEmpty() && !path.equals("root")) {
      queue("root", "", "");
    }
    String parent = Names.parent(path);
    queues.addName(path.substring(parent.isEmpty() ? 0 : parent.length() + 1));
    queues.addParent(parent.isEmpty() ? 0 : numbers.size() - numbers.get(parent));
    numbers.put(path, numbers.size());
    int[] at = extend(path, submit, admin);
    queues.addSubmit(at[0]).addAdmin(at[1]);
    return this;
  }

  /** Adds a created queue below a queue or another created queue. */
  public Policies create(String path, String submit, String admin) {
    String parent = Names.parent(path);
    int number = numbers.size();
    created.addName(path.substring(parent.length() + 1)).addParent(number - numbers.get(parent));
    numbers.put(path, number);
    int[] at = extend(path, submit, admin);
    created.addSubmit(at[0] + 1).addAdmin(at[1] + 1);
    return this;
  }

  public PolicyPart.Builder build() {
    return part.clone().setLevels(levels).setConfiguredQueues(queues).setCreatedQueues(created);
  }

  private int[] extend(String path, String submit, String admin) {
    int[] above = starts.get(numbers.containsKey(Names.parent(path)) ? Names.parent(path) : "");
    int depth = path.split("\\.").length;
    int[] at = {chain(above[0], depth, submit, admin), chain(above[1], depth, admin)};
    starts.put(path, at);
    return at;
  }

  private int chain(int above, int depth, String... acls) {
    if (Arrays.asList(acls).contains("*")) {
      levels.addEndReasons(Reason.REASON_WILDCARD);
      int start = level(0, depth, "", "", "");
      isOpen.set(start, true);
      return start;
    }
    StringBuilder users = new StringBuilder();
    StringBuilder groups = new StringBuilder();
    StringBuilder services = new StringBuilder();
    for (String acl : acls) {
      String[] parts = acl.split(" ", 2);
      for (String name : parts[0].split(",")) {
        boolean isService = name.startsWith("~");
        (isService ? services : users).append(isService ? name.substring(1) : name).append(',');
      }
      groups.append(parts.length > 1 ? parts[1] : "").append(',');
    }
    boolean open = isOpen.get(above);
    int before = levels.getListedCount();
    int distance = isOpen.size() - above;
    int start =
        level(distance, depth, users.toString(), open ? "" : groups.toString(), open ? "" : services.toString());
    if (levels.getListedCount() > before) {
      isOpen.set(start, open);
      return start;
    }
    isOpen.remove(start); // it lists nobody
    LevelColumns.Builder all = levels.clone();
    levels.clearAbove().addAllAbove(all.getAboveList().subList(0, start));
    levels.clearDepth().addAllDepth(all.getDepthList().subList(0, start));
    levels.clearUsers().addAllUsers(all.getUsersList().subList(0, start));
    levels.clearGroups().addAllGroups(all.getGroupsList().subList(0, start));
    levels.clearServices().addAllServices(all.getServicesList().subList(0, start));
    return above;
  }

  private int level(int distance, int depth, String users, String groups, String services) {
    levels.addAbove(distance).addDepth(depth);
    levels.addUsers(list(users)).addGroups(list(groups)).addServices(list(services));
    isOpen.add(false);
    return isOpen.size() - 1;
  }

  private int list(String text) {
    TreeSet<String> sorted = new TreeSet<>(Arrays.asList(text.split(",")));
    sorted.remove("");
    for (String name : sorted) {
      Integer number = names.get(name);
      if (number == null) {
        number = names.size();
        names.put(name, number);
        part.addNames(name);
      }
      levels.addListed(number);
    }
    return sorted.size();
  }
}
