package io.queuegate;

/** Receives each decision that a gate makes in this process, for the program's own log. */
@FunctionalInterface
public interface DecisionListener {
  /**
   * Called in the calling thread, before the decision is returned. Slow calls delay decisions; a
   * decision whose lease ends meanwhile is void, and the server is asked. Exceptions are logged, and do
   * not change the decision.
   *
   * @param record the decision
   */
  void decided(DecisionRecord record);
}
