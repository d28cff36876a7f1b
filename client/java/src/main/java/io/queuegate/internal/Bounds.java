package io.queuegate.internal;

import java.util.concurrent.TimeUnit;

/**
 * Bounds on messages that a gate accepts from a server. A test compares them with those of the Python
 * gate in {@code gate/bounds.py}.
 */
public final class Bounds {
  static final long MAX_LEASE = TimeUnit.MILLISECONDS.toNanos(5_000); // the longest that the contract allows
  static final long MIN_PING = TimeUnit.MILLISECONDS.toNanos(100); // even if the server sends a shorter one
  static final long MAX_PING = TimeUnit.MILLISECONDS.toNanos(5_000); // a longer one would never give a lease
  // The longest time to send policies before a pong: 100 000 queues at 1 Mbit/s.
  static final long MAX_TRANSFER = TimeUnit.MILLISECONDS.toNanos(120_000);
  static final long MAX_RETRY = TimeUnit.MILLISECONDS.toNanos(30_000); // the longest accepted retry delay

  static final int MAX_MESSAGE_BYTES = 4 << 20; // parts of policies take about 256 KiB
  static final int MAX_NAME_BYTES = 1_024; // of a partition or a group
  static final int MAX_PATH_BYTES = 4_096; // of a queue
  static final int MAX_EPOCH_BYTES = 16;
  // The longest checksum, fingerprint or epoch of a fleet, as enforced by servers.
  static final int MAX_DIGEST_BYTES = 64;

  // Totals of all policies, except MAX_CHAIN_LEVELS and MAX_CREATED_LEVELS.
  static final int MAX_PARTITIONS = 10_000;
  static final int MAX_QUEUES = 250_000;
  static final int MAX_NAMES = 2_000_000; // distinct users, groups and services in ACLs
  static final int MAX_LEVELS = 1_250_000; // a queue adds at most four
  static final int MAX_LISTED = 16_000_000; // names listed in levels
  static final int MAX_CHAIN_LEVELS = 8_192; // in one chain, more than the longest path can have
  static final int MAX_CREATED_LEVELS = 20; // of a created queue below the nearest queue, as enforced by servers
  static final int MAX_PATHS_BYTES = 64 << 20; // all queue paths
  static final int MAX_POLICY_BYTES = 64 << 20; // as sent
  // The names of announced partitions. Policies beyond it are sent again.
  static final int MAX_ANNOUNCED_BYTES = 512 << 10;

  static final int MAX_GROUPS_OF_USER = 10_000; // checks of users with more go to the server
  static final int MAX_GIVEN_GROUPS = 10_000; // in a request, as enforced by servers
  static final int MAX_GROUP_BYTES = 128 << 20; // the groups of all users
  static final int GROUP_OVERHEAD_BYTES = 64; // per group name
  static final long MAX_LIFETIME = TimeUnit.MILLISECONDS.toNanos(86_400_000); // of groups
  /** The longest time that a gate may decide without a lease, in nanoseconds. */
  public static final long MAX_STALE = TimeUnit.MILLISECONDS.toNanos(86_400_000);

  // The shortest time between requests for a user's groups, even if they are unavailable or expire sooner.
  static final long MIN_LOOKUP = TimeUnit.MILLISECONDS.toNanos(1_000);
  static final int MAX_FORGOTTEN = 10_000; // users in a Forget message
  static final int MAX_TEXT_CHARACTERS = 1_024; // of a server's text in the log

  private Bounds() {}
}
