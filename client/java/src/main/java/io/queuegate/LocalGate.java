package io.queuegate;

import io.grpc.Status;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/**
 * A view of the state of a {@link Gate}, for callers that must not wait; they decide with {@link
 * Gate#checkLocally}. Safe for concurrent use. No method waits or throws.
 */
public interface LocalGate {
  /**
   * Checks whether a user may use a queue if that does not depend on the user's groups.
   *
   * @param question the question, without groups
   * @return the decision; null if it depends on groups, or if only the server can decide
   */
  Decision checkWithoutGroups(Check question);

  /**
   * Returns a user's groups, as the server's resolver gives them. If the gate lacks them, it requests
   * them.
   *
   * @param partition the name of the partition
   * @param user the name of the user
   * @return the groups, empty for an unknown user; null if the gate lacks them, or has neither a lease nor
   *     time left in which it may use old state ({@link GateConfig.Builder#stale})
   */
  List<String> groups(String partition, String user);

  /**
   * Returns whether the server still has to answer a request for a user's groups. If not, {@link #groups}
   * returns null because the server could not resolve them or answers nothing at the moment, or because
   * the gate has no policy.
   *
   * @param partition the name of the partition
   * @param user the name of the user
   * @return whether an answer may arrive
   */
  boolean awaitsGroups(String partition, String user);

  /**
   * Calls a function whenever the server invalidates groups, before the server learns that the gate has
   * applied this. The function must return soon. A later call replaces the function.
   *
   * @param partition the name of the partition
   * @param invalidate called with the name of a user, or with null for all users
   */
  void onInvalidation(String partition, Consumer<String> invalidate);

  /**
   * Returns the rights that the server gives this gate.
   *
   * @param partition the name of a partition
   * @return the rights; null while no server has accepted a stream of this gate and sent its policies
   */
  Rights rights(String partition);

  /**
   * Returns partitions that the server has, at most 11. If it lacks one that this gate follows, they
   * include others, which a message may list.
   *
   * @return their names; empty while no server has accepted a stream of this gate
   */
  List<String> partitions();

  /**
   * Reports to the server, for display, how many questions the caller decided by itself because neither
   * this gate nor a server did.
   *
   * @param fallbacks returns the number of these questions since the gate was opened; must return at once
   */
  void countFallbacks(LongSupplier fallbacks);

  /**
   * Returns how old the policy may be.
   *
   * @return the milliseconds since the gate last asked a server that confirmed it; -1 without a policy
   */
  long policyAgeMillis();

  /**
   * Returns the revision of a policy.
   *
   * @param partition the name of the partition
   * @return the revision; 0 without a policy
   */
  long revision(String partition);

  /**
   * Returns why the last stream ended.
   *
   * @return the status code; null if the server has accepted a stream since
   */
  Status.Code lastFailure();

  /** The rights that a server gives a gate. Immutable. */
  final class Rights {
    private final boolean decide;
    private final boolean stateGroups;
    private final boolean hasPartition;
    private final boolean knowsRules;

    /**
     * Creates rights. Gates do so; tests of their callers may as well.
     *
     * @param decide whether the server lets the gate decide
     * @param stateGroups whether groups that a question states are used
     * @param hasPartition whether the server has the partition
     * @param knowsRules whether the gate supports the rules of the partition
     */
    public Rights(boolean decide, boolean stateGroups, boolean hasPartition, boolean knowsRules) {
      this.decide = decide;
      this.stateGroups = stateGroups;
      this.hasPartition = hasPartition;
      this.knowsRules = knowsRules;
    }

    /**
     * Returns whether the gate may decide.
     *
     * @return whether it may
     */
    public boolean decide() {
      return decide;
    }

    /**
     * Returns whether groups that a question states are used: the caller has the right, and the
     * partition trusts such groups.
     *
     * @return whether they are used
     */
    public boolean stateGroups() {
      return stateGroups;
    }

    /**
     * Returns whether the server has the partition.
     *
     * @return whether it has
     */
    public boolean hasPartition() {
      return hasPartition;
    }

    /**
     * Returns whether the gate supports the decision rules of the partition.
     *
     * @return whether it does
     */
    public boolean knowsRules() {
      return knowsRules;
    }
  }
}
