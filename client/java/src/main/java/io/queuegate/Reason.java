package io.queuegate;

/** Why access was granted or denied. */
public enum Reason {
  /** A reason from a server newer than this client. */
  UNSPECIFIED(false),
  /** Granted: an ACL allows everyone. */
  WILDCARD(true),
  /** Granted: an ACL lists the user. */
  USER(true),
  /** Granted: an ACL lists one of the user's groups. */
  GROUP(true),
  /** Denied: no ACL from the queue up to the root lists the user or the user's groups. */
  NO_MATCH(false),
  /** Denied: the decision depends on groups, and the resolver does not know the user. */
  UNKNOWN_USER(false),
  /** Denied: nobody may submit to the recovery queue or below it. */
  RECOVERY_QUEUE(false),
  /** Granted: the scheduler does not enforce ACLs. */
  ACLS_DISABLED(true),
  /** Granted: the user administers the cluster. */
  CLUSTER_ADMIN(true),
  /** Granted: the user owns the application. */
  OWNER(true),
  /** Denied: the target queue of a move does not exist. */
  UNKNOWN_QUEUE(false);

  private final boolean grants;

  Reason(boolean grants) {
    this.grants = grants;
  }

  /**
   * Returns whether decisions with this reason grant access; for {@link #UNSPECIFIED}, unknown to this
   * client, only {@link Decision#allowed()} says so.
   *
   * @return whether this reason grants access
   */
  public boolean grants() {
    return grants;
  }
}
