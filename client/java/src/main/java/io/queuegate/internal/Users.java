package io.queuegate.internal;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/**
 * The cached groups of users. Dropping an entry invalidates the cached decisions that used it.
 *
 * <p>Any thread may look entries up, without a lock; only the session's lock holder changes them.
 */
public final class Users {
  /** How many users' groups a gate keeps. */
  public static final int MAX_USERS = 10_000;

  /** The fraction of the groups' lifetime after which their next use triggers a new request. */
  static final double REFRESH_AFTER = 0.8;

  /** The shortest time between such requests. */
  static final long REFRESH_RETRY = TimeUnit.MILLISECONDS.toNanos(1_000);

  private final ConcurrentHashMap<Key, Entry> entries = new ConcurrentHashMap<>();
  private volatile Listener listener; // null if nobody listens
  private int bytes; // the approximate size of all groups

  /** A function that is called with invalidations in a partition. */
  private static final class Listener {
    final String partition;
    final Consumer<String> invalidate;

    Listener(String partition, Consumer<String> invalidate) {
      this.partition = partition;
      this.invalidate = invalidate;
    }
  }

  /** Calls a function with each user of a partition that is dropped, and with null for all. */
  void onInvalidation(String partition, Consumer<String> invalidate) {
    listener = new Listener(partition, invalidate);
  }

  /** A partition with the name of a user. */
  static final class Key {
    final String partition;
    final String name;

    Key(String partition, String name) {
      this.partition = partition;
      this.name = name;
    }

    @Override
    public boolean equals(Object object) {
      return object instanceof Key
          && name.equals(((Key) object).name)
          && partition.equals(((Key) object).partition);
    }

    @Override
    public int hashCode() {
      return 31 * partition.hashCode() + name.hashCode();
    }
  }

  /** The groups of a user. Immutable except for its times. */
  static final class Entry {
    final Key key;
    final boolean exists;
    final List<String> groups;
    private volatile long expiresAt; // Clock.NEVER once dropped
    private final AtomicLong refreshAt = new AtomicLong();

    Entry(Key key, boolean exists, List<String> groups) {
      this.key = key;
      this.exists = exists;
      this.groups = groups;
    }

    long expiresAt() {
      return expiresAt;
    }

    /**
     * Returns whether the caller should request the groups, and if so, stops others from doing so for
     * {@link #REFRESH_RETRY}.
     */
    boolean isDue(long now) {
      long at = refreshAt.get();
      return now < Clock.FOREVER && now >= at && refreshAt.compareAndSet(at, now + REFRESH_RETRY);
    }

    private void live(long from, long lifetime) {
      expiresAt = from + lifetime;
      refreshAt.set(from + (long) (REFRESH_AFTER * lifetime));
    }

    private int size() {
      int sum = Bounds.GROUP_OVERHEAD_BYTES * groups.size();
      for (String group : groups) {
        sum += group.length();
      }
      return sum;
    }
  }

  Entry find(String partition, String name) {
    return entries.get(new Key(partition, name));
  }

  /**
   * Stores the groups of a user, valid from the given time. If there are too many users, others are
   * dropped.
   */
  void set(Key key, boolean exists, List<String> groups, long from, long lifetime) {
    Entry known = entries.get(key);
    if (known != null && known.exists == exists && known.groups.equals(groups)) {
      known.live(from, lifetime);
      return;
    }
    if (known != null) {
      drop(known);
    }
    Entry entry = new Entry(key, exists, groups);
    int size = entry.size();
    for (Entry other : entries.values()) { // in any order
      if (entries.size() < MAX_USERS && bytes <= Bounds.MAX_GROUP_BYTES - size) {
        break;
      }
      drop(other);
    }
    entry.live(from, lifetime);
    entries.put(key, entry);
    bytes += size;
  }

  private void drop(Entry entry) {
    entry.expiresAt = Clock.NEVER;
    entries.remove(entry.key);
    bytes -= entry.size();
  }

  /** Drops the named users of a partition, or all its users if no names are given. */
  void forget(String partition, Collection<String> names) {
    for (String name : names) {
      Entry entry = entries.get(new Key(partition, name));
      if (entry != null) {
        drop(entry);
      }
    }
    if (names.isEmpty()) {
      for (Map.Entry<Key, Entry> each : entries.entrySet()) {
        if (each.getKey().partition.equals(partition)) {
          drop(each.getValue());
        }
      }
    }
    Listener listening = listener;
    if (listening != null && listening.partition.equals(partition)) {
      if (names.isEmpty()) {
        listening.invalidate.accept(null);
      }
      names.forEach(listening.invalidate);
    }
  }

  /** Drops all users outside the given partitions. */
  void dropAllBut(Collection<String> partitions) {
    for (Map.Entry<Key, Entry> each : entries.entrySet()) {
      if (!partitions.contains(each.getKey().partition)) {
        drop(each.getValue());
      }
    }
    Listener listening = listener;
    if (listening != null && !partitions.contains(listening.partition)) {
      listening.invalidate.accept(null);
    }
  }

  int count() {
    return entries.size();
  }

  int bytes() {
    return bytes;
  }
}
