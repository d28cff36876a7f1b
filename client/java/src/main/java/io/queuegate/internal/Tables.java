package io.queuegate.internal;

import io.queuegate.Reason;
import io.queuegate.v1.CreatedQueueColumns;
import io.queuegate.v1.LevelColumns;
import io.queuegate.v1.PolicyPart;
import io.queuegate.v1.PolicyPartOrBuilder;
import io.queuegate.v1.QueueColumns;
import io.queuegate.v1.QueueNaming;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads and validates the tables of a policy, merged from its parts, which {@link #checkRows} has
 * validated. Rows refer to earlier rows by distance, so tables cannot contain cycles.
 */
final class Tables {
  private final Partition partition = new Partition();
  private final int[] depths; // by queue, followed by created queues
  private int[] lengths; // by level: the number of levels above it
  private int pathBytes;

  private Tables(int queues) {
    depths = new int[queues];
  }

  /** A partition with the size of its paths. */
  static final class Read {
    final Partition partition;
    final int pathBytes;

    Read(Tables tables) {
      partition = tables.partition;
      pathBytes = tables.pathBytes;
    }
  }

  /** Validates what a part must satisfy without the parts that follow it. */
  static void checkRows(PolicyPartOrBuilder earlier, PolicyPart part) throws ProtocolFault {
    LevelColumns levels = part.getLevels();
    int count = levels.getAboveCount();
    if (levels.getDepthCount() != count
        || levels.getUsersCount() != count
        || levels.getGroupsCount() != count
        || levels.getServicesCount() != count) {
      throw new ProtocolFault("the columns of levels have different lengths");
    }
    QueueColumns queues = part.getConfiguredQueues();
    count = queues.getNameCount();
    if (queues.getParentCount() != count || queues.getSubmitCount() != count || queues.getAdminCount() != count) {
      throw new ProtocolFault("the columns of queues have different lengths");
    }
    CreatedQueueColumns created = part.getCreatedQueues();
    count = created.getNameCount();
    if (created.getParentCount() != count || created.getSubmitCount() != count || created.getAdminCount() != count) {
      throw new ProtocolFault("the columns of created queues have different lengths");
    }
    if (!areBelow(levels.getListedList(), earlier.getNamesCount() + part.getNamesCount())) {
      throw new ProtocolFault("a level lists a name that does not exist");
    }
    int known = earlier.getLevelsOrBuilder().getAboveCount() + levels.getAboveCount();
    if (!areBelow(queues.getSubmitList(), known)
        || !areBelow(queues.getAdminList(), known)
        || !areBelow(created.getSubmitList(), known + 1)
        || !areBelow(created.getAdminList(), known + 1)) {
      throw new ProtocolFault("a queue refers to a level that does not exist");
    }
    if (queues.getNameCount() > 0 && earlier.getCreatedQueuesOrBuilder().getNameCount() > 0) {
      throw new ProtocolFault("a queue follows the created queues");
    }
  }

  private static boolean areBelow(List<Integer> numbers, int limit) {
    return numbers.stream().allMatch(number -> isBelow(number, limit));
  }

  static Read read(PolicyPart sent) throws ProtocolFault {
    QueueColumns configured = sent.getConfiguredQueues();
    CreatedQueueColumns created = sent.getCreatedQueues();
    Tables tables = new Tables(configured.getNameCount() + created.getNameCount());
    tables.partition.naming = sent.getNaming();
    tables.readNames(sent.getNamesList());
    tables.readLevels(sent.getLevels());
    tables.readQueues(configured);
    tables.readCreated(created, configured.getNameCount());
    tables.readStarts(configured, created);
    tables.partition.ambiguous = sent.getAmbiguousLevel();
    tables.checkReferences();
    tables.checkChains();
    return new Read(tables);
  }

  private void readNames(List<String> sent) throws ProtocolFault {
    Map<String, Integer> names = new HashMap<>(capacity(sent.size()));
    for (String name : sent) {
      names.put(name, names.size());
    }
    if (names.size() != sent.size() || names.containsKey("")) {
      throw new ProtocolFault("a name in an ACL is empty or was sent twice");
    }
    partition.names = names;
  }

  private static int capacity(int entries) {
    return entries + entries / 3 + 1;
  }

  private void readLevels(LevelColumns sent) throws ProtocolFault {
    int count = sent.getAboveCount();
    Partition p = partition;
    p.listed = sent.getListedList().stream().mapToInt(Integer::intValue).toArray();
    p.above = new int[count];
    p.depth = new int[count];
    p.starts = new int[3 * count + 1];
    p.ends = new Reason[count];
    lengths = new int[count];
    int nextEnd = 0;
    for (int i = 0; i < count; i++) {
      addList(3 * i, sent.getUsers(i));
      addList(3 * i + 1, sent.getGroups(i));
      addList(3 * i + 2, sent.getServices(i));
      int above = sent.getAbove(i);
      if (!isBelow(above, i + 1)) {
        throw new ProtocolFault("a level refers to a level before the first");
      } else if (above > 0) {
        lengths[i] = lengths[i - above] + 1;
      } else if (p.starts[3 * i + 3] > p.starts[3 * i]) {
        throw new ProtocolFault("the end of a chain lists names");
      } else {
        p.ends[i] = nextEnd < sent.getEndReasonsCount() ? endReason(sent.getEndReasons(nextEnd)) : null;
        nextEnd++;
        if (p.ends[i] == null) {
          throw new ProtocolFault("a chain's end has an invalid reason");
        }
      }
      if (lengths[i] >= Bounds.MAX_CHAIN_LEVELS) {
        throw new ProtocolFault("a chain has more than " + Bounds.MAX_CHAIN_LEVELS + " levels");
      }
      p.above[i] = above;
      p.depth[i] = sent.getDepth(i);
    }
    if (p.starts[3 * count] != p.listed.length || nextEnd != sent.getEndReasonsCount()) {
      throw new ProtocolFault(
          "the number of listed names does not match the levels, or the number of reasons the ends of"
              + " chains");
    }
  }

  private static Reason endReason(io.queuegate.v1.Reason sent) {
    switch (sent) {
      case REASON_WILDCARD:
        return Reason.WILDCARD;
      case REASON_CLUSTER_ADMIN:
        return Reason.CLUSTER_ADMIN;
      case REASON_ACLS_DISABLED:
        return Reason.ACLS_DISABLED;
      case REASON_NO_MATCH:
        return Reason.NO_MATCH;
      default:
        return null;
    }
  }

  /** Adds a list of a level, whose names were sent sorted by name. */
  private void addList(int index, int length) throws ProtocolFault {
    int start = partition.starts[index];
    if (!isBelow(length, partition.listed.length - start + 1)) {
      throw new ProtocolFault("the number of listed names does not match the levels");
    }
    partition.starts[index + 1] = start + length;
    Arrays.sort(partition.listed, start, start + length);
  }

  private void readQueues(QueueColumns sent) throws ProtocolFault {
    int count = sent.getNameCount();
    if (count == 0 || !sent.getName(0).equals(Names.ROOT) || sent.getParent(0) != 0) {
      throw new ProtocolFault("the first queue is not \"root\"");
    }
    Partition p = partition;
    p.paths = new String[count];
    p.queues = new HashMap<>(capacity(count));
    p.shortNames =
        p.naming == QueueNaming.QUEUE_NAMING_YARN_SHORT_NAMES ? new HashMap<>() : null;
    int[] lengths = new int[count]; // of the paths in UTF-8
    for (int i = 0; i < count; i++) {
      String name = queueName(sent.getName(i));
      String path = name;
      lengths[i] = Names.utf8Length(name);
      depths[i] = 1;
      if (i > 0) {
        int distance = sent.getParent(i);
        if (distance == 0 || !isBelow(distance, i + 1)) {
          throw new ProtocolFault("a queue refers to a parent that does not exist");
        }
        int parent = i - distance;
        lengths[i] += lengths[parent] + 1;
        checkPath(lengths[i]); // before a hostile path is built
        path = p.paths[parent] + "." + name;
        depths[i] = depths[parent] + 1;
      }
      checkPath(lengths[i]);
      pathBytes += lengths[i];
      if (pathBytes > Bounds.MAX_PATHS_BYTES) {
        throw new ProtocolFault("all paths have more than " + Bounds.MAX_PATHS_BYTES + " bytes");
      }
      p.paths[i] = path;
      p.queues.put(path, i);
      if (p.shortNames != null && !name.equals(Names.ROOT)) {
        p.shortNames.put(name, p.shortNames.containsKey(name) ? name : path);
      }
    }
    if (p.queues.size() != count) {
      throw new ProtocolFault("the policy contains a queue twice");
    }
    Integer[] sorted = new Integer[count];
    Arrays.setAll(sorted, i -> i);
    Arrays.sort(sorted, (a, b) -> Names.compare(p.paths[a], p.paths[b]));
    p.sorted = Arrays.stream(sorted).mapToInt(Integer::intValue).toArray();
  }

  private static void checkPath(int length) throws ProtocolFault {
    if (length < 0 || length > Bounds.MAX_PATH_BYTES) {
      throw new ProtocolFault("a path has more than " + Bounds.MAX_PATH_BYTES + " bytes");
    }
  }

  private static String queueName(String name) throws ProtocolFault {
    if (name.isEmpty() || name.indexOf('.') >= 0) {
      throw new ProtocolFault("a queue name is empty or contains a dot");
    }
    return name;
  }

  private void readCreated(CreatedQueueColumns sent, int first) throws ProtocolFault {
    int count = sent.getNameCount();
    partition.created = new HashMap<>();
    int[] below = new int[depths.length]; // the number of levels below the nearest queue
    for (int i = 0; i < count; i++) {
      int number = first + i;
      int distance = sent.getParent(i);
      if (distance == 0 || !isBelow(distance, number + 1)) {
        throw new ProtocolFault("a created queue refers to a parent that does not exist");
      }
      int parent = number - distance;
      depths[number] = depths[parent] + 1;
      below[number] = below[parent] + 1;
      if (below[number] > Bounds.MAX_CREATED_LEVELS) {
        throw new ProtocolFault(
            "a created queue is more than " + Bounds.MAX_CREATED_LEVELS + " levels below a queue");
      }
      Map<String, Integer> siblings = partition.created.computeIfAbsent(parent, key -> new HashMap<>());
      if (siblings.put(queueName(sent.getName(i)), number) != null) {
        throw new ProtocolFault("the policy contains a created queue twice");
      }
    }
  }

  /** Reads the starts of chains. Those of created queues are sent plus 1, and 0 if unknown. */
  private void readStarts(QueueColumns configured, CreatedQueueColumns created) {
    int first = configured.getNameCount();
    partition.submit = new int[depths.length];
    partition.admin = new int[depths.length];
    for (int i = 0; i < depths.length; i++) {
      boolean isConfigured = i < first;
      partition.submit[i] = isConfigured ? configured.getSubmit(i) : created.getSubmit(i - first) - 1;
      partition.admin[i] = isConfigured ? configured.getAdmin(i) : created.getAdmin(i - first) - 1;
    }
  }

  private void checkReferences() throws ProtocolFault {
    if (!isBelow(partition.ambiguous, partition.above.length)) {
      throw new ProtocolFault("ambiguous names refer to a level that does not exist");
    }
    int deepest = Arrays.stream(depths).max().orElse(0);
    for (int depth : partition.depth) {
      if (!isBelow(depth, deepest + 1)) {
        throw new ProtocolFault("a level is deeper than the path of any queue");
      }
    }
  }

  /** Validates what makes the gates of all languages decide alike, and bounds the work per question. */
  private void checkChains() throws ProtocolFault {
    Partition p = partition;
    boolean[] grants = new boolean[p.above.length]; // whether the end of the chain grants access
    for (int i = 0; i < p.above.length; i++) {
      int above = i - p.above[i];
      if (above == i) {
        grants[i] = p.ends[i].grants();
        if (p.depth[i] == 0 ? p.ends[i] == Reason.WILDCARD : p.ends[i] == Reason.CLUSTER_ADMIN) {
          throw new ProtocolFault("the reason at the end of a chain does not match its depth");
        }
      } else if (p.depth[i] < p.depth[above]) {
        throw new ProtocolFault("a level is deeper than the level below it");
      } else if (grants[above] && p.starts[3 * i + 1] < p.starts[3 * i + 3]) {
        throw new ProtocolFault("a level lists groups or services, but its chain grants access");
      } else {
        grants[i] = grants[above];
      }
      if (lengths[i] > 2 * p.depth[i] + 1) {
        throw new ProtocolFault("a chain has more levels than its queue's path allows");
      }
    }
    if (p.depth[p.ambiguous] > 0) {
      throw new ProtocolFault("ambiguous names refer to a level of a queue");
    }
    for (int i = 0; i < depths.length; i++) {
      for (int start : new int[] {p.submit[i], p.admin[i]}) {
        if (start != Partition.UNKNOWN_LEVEL && p.depth[start] > depths[i]) {
          throw new ProtocolFault("a chain starts deeper than its queue's path");
        }
      }
    }
  }

  /** Compares an unsigned number of the contract. */
  private static boolean isBelow(int number, int limit) {
    return number >= 0 && number < limit;
  }
}
