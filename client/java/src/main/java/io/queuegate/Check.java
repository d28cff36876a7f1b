package io.queuegate;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Objects;

/**
 * Asks whether a user may use a queue. Immutable: each {@code with…} method returns a copy.
 *
 * <p>Names are checked when the question is asked: a faulty one is an {@link
 * QueuegateException.InvalidArgument}.
 */
public final class Check {
  private final String user;
  private final String queue;
  private final String partition;
  private final Access access;
  private final List<String> groups;
  private final String realUser;
  private int hash;

  private Check(
      String user,
      String queue,
      String partition,
      Access access,
      List<String> groups,
      String realUser) {
    this.user = Objects.requireNonNull(user, "user");
    this.queue = Objects.requireNonNull(queue, "queue");
    this.partition = Objects.requireNonNull(partition, "partition");
    this.access = Objects.requireNonNull(access, "access");
    this.groups = groups;
    this.realUser = Objects.requireNonNull(realUser, "realUser");
  }

  /**
   * Asks whether a user may submit to a queue of the default partition.
   *
   * @param user the name of the user
   * @param queue the full path of the queue, for example {@code root.a.b}
   * @return the question
   */
  public static Check of(String user, String queue) {
    return new Check(user, queue, "", Access.SUBMIT, null, "");
  }

  /**
   * Asks about another kind of access.
   *
   * @param access the kind of access
   * @return the question
   */
  public Check withAccess(Access access) {
    return new Check(user, queue, partition, access, groups, realUser);
  }

  /**
   * Asks about a queue of another partition.
   *
   * @param partition the name of the partition; empty for {@code default}
   * @return the question
   */
  public Check withPartition(String partition) {
    return new Check(user, queue, partition, access, groups, realUser);
  }

  /**
   * States the user's groups, even if there are none. Without this, the server resolves them if the
   * decision depends on them.
   *
   * @param groups the groups, starting with the primary group; copied
   * @return the question
   */
  public Check withGroups(Collection<String> groups) {
    List<String> copy = Collections.unmodifiableList(new ArrayList<>(groups));
    return new Check(user, queue, partition, access, copy, realUser);
  }

  /**
   * States the service that acts for the user. YARN's ACLs may list it as {@code ~name}.
   *
   * @param realUser the name of the service; empty if none
   * @return the question
   */
  public Check withRealUser(String realUser) {
    return new Check(user, queue, partition, access, groups, realUser);
  }

  /**
   * Returns the user.
   *
   * @return the name of the user
   */
  public String user() {
    return user;
  }

  /**
   * Returns the queue.
   *
   * @return the full path of the queue
   */
  public String queue() {
    return queue;
  }

  /**
   * Returns the partition.
   *
   * @return the name of the partition; empty for {@code default}
   */
  public String partition() {
    return partition;
  }

  /**
   * Returns the kind of access.
   *
   * @return the kind of access
   */
  public Access access() {
    return access;
  }

  /**
   * Returns the stated groups.
   *
   * @return an unmodifiable list; null if the server resolves the groups
   */
  public List<String> groups() {
    return groups;
  }

  /**
   * Returns the service that acts for the user.
   *
   * @return the name of the service; empty if none
   */
  public String realUser() {
    return realUser;
  }

  @Override
  public boolean equals(Object object) {
    if (this == object) {
      return true;
    }
    if (!(object instanceof Check)) {
      return false;
    }
    Check other = (Check) object;
    return access == other.access
        && user.equals(other.user)
        && queue.equals(other.queue)
        && partition.equals(other.partition)
        && realUser.equals(other.realUser)
        && Objects.equals(groups, other.groups);
  }

  @Override
  public int hashCode() {
    int known = hash; // other threads may compute it at the same time
    if (known == 0) {
      int sum = 31 * user.hashCode() + queue.hashCode();
      sum = 31 * sum + partition.hashCode();
      sum = 31 * sum + realUser.hashCode();
      sum = 31 * sum + access.ordinal();
      known = 31 * sum + Objects.hashCode(groups);
      hash = known;
    }
    return known;
  }

  @Override
  public String toString() {
    return "Check{user=" + user + ", queue=" + queue + ", partition=" + partition + ", access=" + access
        + ", groups=" + groups + ", realUser=" + realUser + "}";
  }
}
