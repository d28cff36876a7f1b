package io.queuegate.internal;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/**
 * The users whose groups a gate needs. Each is requested only once at a time.
 *
 * <p>Any thread may call {@link #add} and {@link #isPending}; only the session's lock holder calls the
 * other methods.
 */
final class Wants {
  /** The maximum number of users in a message. */
  static final int MAX_WANTED = 1_000;

  /** The maximum number of users with pending requests for groups, as on the server. */
  static final int MAX_WAITING = 10_000;

  /** How long to wait for a user's groups before requesting them again. */
  static final long ANSWER_TIME = TimeUnit.MILLISECONDS.toNanos(10_000);

  private final Runnable wake;
  private final Set<Users.Key> waiting = ConcurrentHashMap.newKeySet();
  private final Map<Users.Key, Lookup> lookups = new ConcurrentHashMap<>();

  /** A pending request for a user's groups, or one that was answered. Immutable. */
  private static final class Lookup {
    final long sentAt;
    final long again; // when the groups may be requested again
    final boolean isAnswered;

    Lookup(long sentAt, long again, boolean isAnswered) {
      this.sentAt = sentAt;
      this.again = again;
      this.isAnswered = isAnswered;
    }
  }

  /** Creates an empty set. {@code wake} is called for each new user, and must not block. */
  Wants(Runnable wake) {
    this.wake = wake;
  }

  /** Requests the groups of a user in the next message. */
  void add(Users.Key key, long now) {
    if (waiting.contains(key)) {
      return;
    }
    Lookup earlier = lookups.get(key);
    if (earlier != null && now < earlier.again || waiting.size() >= MAX_WAITING) {
      return;
    }
    waiting.add(key);
    wake.run();
  }

  /** Returns the users to request now, by partition, in one message each. */
  Map<String, List<String>> take(long now) {
    Map<String, List<String>> taken = new HashMap<>();
    if (waiting.isEmpty()) {
      return taken;
    }
    if (lookups.size() + waiting.size() > MAX_WAITING) {
      lookups.values().removeIf(earlier -> earlier.isAnswered && now >= earlier.again);
    }
    for (Iterator<Users.Key> keys = waiting.iterator(); keys.hasNext(); ) {
      Users.Key key = keys.next();
      Lookup earlier = lookups.get(key);
      boolean isEarly = earlier != null && now < earlier.again; // added while it was requested
      if (isEarly || earlier == null && lookups.size() >= MAX_WAITING) {
        keys.remove(); // later checks request it again
        continue;
      }
      List<String> users = taken.computeIfAbsent(key.partition, partition -> new ArrayList<>());
      if (users.size() < MAX_WANTED) { // the others are in the next message
        users.add(key.name);
        lookups.put(key, new Lookup(now, now + ANSWER_TIME, false)); // always in one of both
        keys.remove();
      }
    }
    return taken;
  }

  /**
   * Records a response. The groups are not requested again before the given time.
   *
   * @return the time of the request; {@link Clock#NEVER} if there was none
   */
  long answer(Users.Key key, long again) {
    Lookup earlier = lookups.get(key);
    if (earlier == null || earlier.isAnswered) {
      return Clock.NEVER;
    }
    if (again > 0 && again < Clock.FOREVER) {
      lookups.put(key, new Lookup(0, again, true));
    } else {
      lookups.remove(key);
    }
    return earlier.sentAt;
  }

  /** Returns whether a user's groups have been requested, and the response has not arrived. */
  boolean isPending(Users.Key key) {
    if (waiting.contains(key)) {
      return true;
    }
    Lookup earlier = lookups.get(key);
    return earlier != null && !earlier.isAnswered;
  }

  /** Drops all users, since a response arrives only on the stream of its request. */
  void clear() {
    waiting.clear();
    lookups.clear();
  }
}
