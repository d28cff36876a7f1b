package io.queuegate.hadoop;

import io.queuegate.Access;

/** A question of the ResourceManager: may this user use this queue? Immutable. */
final class QueueCheck {
  /** The short name of the user. */
  final String user;
  /** The short name of the service that acts for the user; empty if there is none. */
  final String realUser;
  /** The full path of the queue. */
  final String queue;
  /** The kind of access. */
  final Access access;

  QueueCheck(String user, String realUser, String queue, Access access) {
    this.user = user;
    this.realUser = realUser;
    this.queue = queue;
    this.access = access;
  }
}
