package io.queuegate.hadoop;

import io.queuegate.internal.Users;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Empties Hadoop's own cache of groups once a user has lost their last group.
 *
 * <p>Hadoop's {@code Groups} takes an empty list for a failed look-up, and then keeps the user's old groups
 * for up to ten times {@code hadoop.security.groups.cache.secs}. It can only drop the groups of all users, so
 * this is done at most once a second, and only for a user to whom it may still attribute groups, or once the
 * groups of more users are invalidated than may be looked up.
 */
final class HadoopCache {
  /** Runs work on another thread. */
  interface Timer {
    /**
     * Runs work after a time.
     *
     * @param millis how long to wait first, in milliseconds
     */
    void after(long millis, Runnable work);
  }

  /** How many users' groups in Hadoop's cache are remembered. */
  static final int MAX_USERS = Users.MAX_USERS;
  /** How many invalidated users are looked up, which takes the place of other users' groups in the gate. */
  static final int MAX_LOOKUPS = 1_000;

  private static final Logger LOG = LoggerFactory.getLogger(HadoopCache.class);
  private static final long PAUSE_MILLIS = 1_000;
  private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(PAUSE_MILLIS);
  private static final long POLL_MILLIS = 10;
  /** How many times {@code cache.secs} Hadoop keeps groups that it cannot renew. */
  private static final int KEPT_PERIODS = 10;
  /** What Hadoop may take to cache a list that it has received. */
  private static final long SLACK_NANOS = TimeUnit.MINUTES.toNanos(1);

  private final GateLink link;
  private final long lookupNanos;
  private final long keptNanos;
  private final Runnable refresh;
  private final Timer timer;
  private final LongSupplier clock;

  // Guarded by this object.
  /** The users to whom Hadoop may attribute groups, with the times when it got them, oldest first. */
  private final LinkedHashMap<String, Long> given = new LinkedHashMap<>();
  /** Those of them whose groups were invalidated and are looked up, with the times until when. */
  private final Map<String, Long> checked = new HashMap<>();
  /** When Hadoop got the groups of the last user who was forgotten for others; null if it has none. */
  private Long forgotten;
  private boolean isCheckDue; // or a check is running
  private long checkPausedUntil;
  private boolean isRefreshDue;
  private long refreshedAt;

  /**
   * @param lookupNanos how long to wait for groups that were invalidated, in nanoseconds
   * @param cacheSeconds {@code hadoop.security.groups.cache.secs}
   * @param refresh empties Hadoop's cache
   * @param clock a monotonic time in nanoseconds
   */
  HadoopCache(
      GateLink link, long lookupNanos, long cacheSeconds, Runnable refresh, Timer timer, LongSupplier clock) {
    this.link = link;
    this.lookupNanos = lookupNanos;
    this.keptNanos = TimeUnit.SECONDS.toNanos(KEPT_PERIODS * cacheSeconds) + SLACK_NANOS;
    this.refresh = refresh;
    this.timer = timer;
    this.clock = clock;
    checkPausedUntil = clock.getAsLong();
    refreshedAt = checkPausedUntil - PAUSE_NANOS;
    link.onInvalidation(this::invalidated);
  }

  /** Notes the groups that Hadoop gets and caches. */
  synchronized void gets(String user, List<String> groups) {
    long now = clock.getAsLong();
    boolean hadGroups = given.remove(user) != null || hasForgotten(now);
    if (groups.isEmpty()) {
      if (hadGroups) {
        refreshSoon();
      }
      return;
    }
    Iterator<Long> times = given.values().iterator();
    while (times.hasNext()) {
      long time = times.next();
      boolean isKept = now - time <= keptNanos;
      if (isKept && given.size() < MAX_USERS) {
        break;
      }
      times.remove();
      if (isKept) {
        forgotten = time;
      }
    }
    given.put(user, now);
    checkSoon(POLL_MILLIS); // unless no thread could be started for it before
  }

  /** Returns whether Hadoop may attribute groups to users who are not remembered. */
  private boolean hasForgotten(long now) {
    return forgotten != null && now - forgotten <= keptNanos;
  }

  /**
   * Looks the groups of an invalidated user up, or of all users if it is null, if Hadoop may have some. If
   * these are many users, Hadoop's cache is emptied instead.
   */
  private synchronized void invalidated(String user) {
    long now = clock.getAsLong();
    long until = now + lookupNanos;
    boolean hasForgotten = hasForgotten(now);
    if (user == null) {
      given.keySet().forEach(each -> checked.put(each, until));
    } else if (given.containsKey(user) || hasForgotten) {
      checked.put(user, until);
    }
    if (checked.size() > MAX_LOOKUPS || (user == null && hasForgotten)) {
      checked.clear();
      refreshSoon();
    }
    checkSoon(0);
  }

  private void checkSoon(long millis) {
    if (!isCheckDue && !checked.isEmpty()) {
      long nanos = Math.max(TimeUnit.MILLISECONDS.toNanos(millis), checkPausedUntil - clock.getAsLong());
      isCheckDue = after(wholeMillis(nanos), this::check);
    }
  }

  private void check() {
    try {
      lookUpChecked();
    } finally { // even without memory
      synchronized (this) {
        isCheckDue = false;
        checkSoon(POLL_MILLIS);
      }
    }
  }

  private void lookUpChecked() {
    Map<String, Long> now;
    synchronized (this) {
      now = new HashMap<>(checked);
    }
    List<String> ended = new ArrayList<>();
    boolean isLast = false;
    Throwable failure = null;
    for (Map.Entry<String, Long> each : now.entrySet()) {
      List<String> groups = null;
      try {
        groups = link.groups(each.getKey()); // requests them if they are missing
      } catch (Throwable error) { // the executor would never tell
        failure = error;
      }
      if (groups != null || clock.getAsLong() - each.getValue() >= 0) {
        ended.add(each.getKey());
        isLast |= groups != null && groups.isEmpty();
      }
    }
    if (failure != null) {
      LOG.warn("Cannot look up whether a user has lost all groups: Hadoop may keep the old ones.", failure);
    }
    synchronized (this) {
      ended.forEach(user -> checked.remove(user, now.get(user))); // unless invalidated again meanwhile
      if (isLast) {
        refreshSoon();
      }
      if (failure != null) {
        checkPausedUntil = clock.getAsLong() + PAUSE_NANOS;
      }
    }
  }

  private void refreshSoon() {
    if (!isRefreshDue) {
      long nanos = Math.max(0, refreshedAt + PAUSE_NANOS - clock.getAsLong());
      isRefreshDue = after(wholeMillis(nanos), this::refresh);
    }
  }

  private void refresh() {
    long began = clock.getAsLong();
    synchronized (this) {
      isRefreshDue = false;
      refreshedAt = began;
    }
    try {
      refresh.run();
      synchronized (this) {
        if (forgotten != null && began - forgotten > SLACK_NANOS) {
          forgotten = null;
        }
      }
    } catch (Throwable error) {
      LOG.warn("Cannot empty Hadoop's cache of groups: it may keep the old groups of a user who has lost all "
        + "groups. `-refreshUserToGroupsMappings` empties it.", error);
    }
  }

  private static long wholeMillis(long nanos) {
    return TimeUnit.NANOSECONDS.toMillis(nanos + 999_999);
  }

  /** Returns whether the work will run. If not, Hadoop's next look-up of the user starts it. */
  private boolean after(long millis, Runnable work) {
    try {
      timer.after(millis, work);
      return true;
    } catch (Throwable error) { // the system has no thread left, which must not end the gate's stream
      LOG.warn("Cannot start a thread that empties Hadoop's cache of groups.", error);
      return false;
    }
  }
}
