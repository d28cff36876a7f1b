package io.queuegate.hadoop;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongSupplier;

/**
 * A copy of users' groups, so that the scheduler's threads never look groups up: Hadoop's own look-up
 * may wait for a directory, and turns a failure into an empty list.
 *
 * <p>A user's first use, and each use of groups that are older than {@code refresh}, starts a look-up on
 * another thread. Groups older than {@code lifetime} are not used. A failed look-up changes nothing.
 * A look-up that began before an invalidation of its user is dropped.
 */
final class GroupsCopy {
  /** Looks groups up. */
  interface Lookup {
    /**
     * Returns the user's groups.
     *
     * @throws IOException if they are not known for certain
     */
    List<String> groups(String user) throws IOException;
  }

  /** The most groups that a question may contain. */
  private static final int MAX_GROUPS = 10_000;
  /** A failed look-up is not repeated sooner. */
  private static final long RETRY_NANOS = TimeUnit.SECONDS.toNanos(1);

  private final Lookup lookup;
  private final Executor executor;
  private final long refreshNanos;
  private final long lifetimeNanos;
  private final int maxUsers;
  private final LongSupplier clock;
  private final Map<String, Entry> entries = new ConcurrentHashMap<>();
  /** Look-ups that run or wait, and those that failed lately. Guarded by itself. */
  private final Map<String, Load> loads = new HashMap<>();
  private long purgedAt; // guarded by loads
  private final LongAdder failures = new LongAdder();

  /**
   * @param executor runs look-ups, on threads other than the callers'
   * @param clock the time in nanoseconds, which must not stop while the machine is suspended
   */
  GroupsCopy(Lookup lookup, Executor executor, Settings settings, LongSupplier clock) {
    this.lookup = lookup;
    this.executor = executor;
    this.refreshNanos = settings.groupsRefresh.toNanos();
    this.lifetimeNanos = settings.groupsLifetime.toNanos();
    this.maxUsers = settings.maxUsers;
    this.clock = clock;
  }

  /** Returns the user's groups, or null if they are not known. Never waits. */
  List<String> known(String user) {
    Entry entry = entries.get(user);
    boolean isKnown = isKnown(entry);
    if (!isKnown || clock.getAsLong() - entry.loadedAt > refreshNanos) {
      load(user);
    }
    return isKnown ? entry.groups : null;
  }

  private boolean isKnown(Entry entry) {
    long age = entry == null ? Long.MAX_VALUE : clock.getAsLong() - entry.loadedAt;
    return 0 <= age && age <= lifetimeNanos; // the clock was unreadable if it is negative
  }

  /** Waits until the look-up of the user's groups has ended, at most for a time in milliseconds. */
  void await(String user, long millis) throws InterruptedException {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
    Load load = load(user);
    while (load.ended.await(end - System.nanoTime(), TimeUnit.NANOSECONDS)) {
      Load next;
      synchronized (loads) {
        next = loads.get(user);
      }
      if (next == null || next == load) {
        return;
      }
      load = next; // an invalidation replaced it
    }
  }

  /** Drops a user's groups, and looks them up again if they were in use. */
  void invalidate(String user) {
    boolean wasUsed;
    synchronized (loads) {
      wasUsed = entries.remove(user) != null;
      Load dropped = loads.remove(user);
      wasUsed |= dropped != null && !dropped.hasEnded();
    }
    if (wasUsed) {
      load(user);
    }
  }

  /** Drops all groups, and looks those in use up again, or the scheduler's next checks would lack them. */
  void invalidateAll() {
    List<String> used = new ArrayList<>();
    synchronized (loads) {
      entries.forEach((user, entry) -> {
        if (isKnown(entry)) {
          used.add(user);
        }
      });
      loads.forEach((user, load) -> {
        if (!load.hasEnded() && !entries.containsKey(user)) {
          used.add(user);
        }
      });
      entries.clear();
      loads.clear();
    }
    used.forEach(this::load);
  }

  /** Returns the number of users whose groups are kept. */
  int size() {
    return entries.size();
  }

  /** Returns the milliseconds since the oldest groups that may be used were looked up; 0 without any. */
  long oldestMillis() {
    long now = clock.getAsLong();
    long oldest = 0;
    for (Entry entry : entries.values()) {
      oldest = isKnown(entry) ? Math.max(oldest, now - entry.loadedAt) : oldest;
    }
    return TimeUnit.NANOSECONDS.toMillis(oldest);
  }

  /** Returns the number of failed look-ups. */
  long failures() {
    return failures.sum();
  }

  /** Returns the look-up of a user that runs or has just failed, or starts one. */
  private Load load(String user) {
    Load load = new Load(user);
    synchronized (loads) {
      Load earlier = loads.get(user);
      if (earlier != null && !earlier.mayBeRepeated()) {
        return earlier;
      }
      if (loads.size() >= maxUsers && earlier == null) {
        if (isRetryDue(purgedAt)) { // not for each check, while many fail
          purgedAt = clock.getAsLong();
          loads.values().removeIf(Load::mayBeRepeated);
        }
        if (loads.size() >= maxUsers) {
          load.end(); // too much to do: the user's groups stay unknown
          return load;
        }
      }
      loads.put(user, load);
    }
    try {
      executor.execute(load);
    } catch (Throwable error) { // the queue is full, or the system has no thread left
      load.fail();
    }
    return load;
  }

  /** Returns whether a time is at least a second ago, or in the future because the clock was unreadable. */
  private boolean isRetryDue(long since) {
    return Math.abs(clock.getAsLong() - since) >= RETRY_NANOS;
  }

  private final class Load implements Runnable {
    private final String user;
    private final CountDownLatch ended = new CountDownLatch(1);
    private volatile long failedAt;

    Load(String user) {
      this.user = user;
    }

    @Override
    public void run() {
      try {
        long began = clock.getAsLong();
        List<String> groups = lookup.groups(user);
        if (groups.size() > MAX_GROUPS) {
          throw new IOException("the user has more than " + MAX_GROUPS + " groups");
        }
        keep(new Entry(Collections.unmodifiableList(new ArrayList<>(groups)), began));
        end();
      } catch (Throwable error) {
        fail();
      }
    }

    private void keep(Entry entry) {
      synchronized (loads) {
        if (!loads.remove(user, this)) {
          return; // invalidated meanwhile
        }
        if (!entries.containsKey(user)) {
          Iterator<String> any = entries.keySet().iterator();
          while (entries.size() >= maxUsers && any.hasNext()) {
            any.next();
            any.remove();
          }
        }
        entries.put(user, entry);
      }
    }

    private void fail() {
      try {
        failedAt = clock.getAsLong();
        failures.increment();
      } finally {
        end(); // or the user's groups would never be looked up again
      }
    }

    private void end() {
      ended.countDown();
    }

    private boolean hasEnded() {
      return ended.getCount() == 0;
    }

    private boolean mayBeRepeated() {
      return hasEnded() && isRetryDue(failedAt);
    }
  }

  private static final class Entry {
    final List<String> groups;
    final long loadedAt;

    Entry(List<String> groups, long loadedAt) {
      this.groups = groups;
      this.loadedAt = loadedAt;
    }
  }
}
