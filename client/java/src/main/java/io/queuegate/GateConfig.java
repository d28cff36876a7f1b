package io.queuegate;

import io.queuegate.internal.Bounds;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Objects;

/** Configures a gate. Immutable. */
public final class GateConfig {
  private static final int MAX_PARTITIONS = 10_000;
  private static final int MAX_NAME_BYTES = 256;
  private static final int MAX_AGENT_BYTES = 64;

  final ClientConfig client;
  final String name;
  final String agent;
  final List<String> partitions;
  final Duration stale;
  final Runnable onChange;
  final DecisionListener onDecision;

  private GateConfig(Builder builder) {
    client = builder.client;
    name = builder.name;
    agent = builder.agent;
    partitions = Collections.unmodifiableList(new ArrayList<>(builder.partitions));
    stale = builder.stale;
    onChange = builder.onChange;
    onDecision = builder.onDecision;
  }

  /**
   * Starts with the defaults.
   *
   * @return a builder
   */
  public static Builder builder() {
    return new Builder();
  }

  /** Sets values other than the defaults. Not safe for concurrent use. */
  public static final class Builder {
    private ClientConfig client = ClientConfig.builder().build();
    private String name = "";
    private String agent = "queuegate-java";
    private Collection<String> partitions = Collections.emptyList();
    private Duration stale = Duration.ZERO;
    private Runnable onChange;
    private DecisionListener onDecision;

    private Builder() {}

    /**
     * Sets the connection.
     *
     * @param client as for a client
     * @return this builder
     */
    public Builder client(ClientConfig client) {
      this.client = Objects.requireNonNull(client, "client");
      return this;
    }

    /**
     * Sets the gate's name on the server, at most 256 bytes. Defaults to the process ID and the host name.
     *
     * @param name the name; empty for the default
     * @return this builder
     */
    public Builder name(String name) {
      this.name = Objects.requireNonNull(name, "name");
      return this;
    }

    /**
     * Sets the program and its version, for display by the server, at most 64 bytes. Defaults to {@code
     * queuegate-java}.
     *
     * @param agent the program, such as {@code scheduler/1.0}
     * @return this builder
     */
    public Builder agent(String agent) {
      this.agent = Objects.requireNonNull(agent, "agent");
      return this;
    }

    /**
     * Sets the partitions whose policies to copy, at most 10 000. A partition missing from the server is
     * logged once, and used once the server has it.
     *
     * @param partitions the names; all partitions if empty, the default
     * @return this builder
     */
    public Builder partitions(Collection<String> partitions) {
      this.partitions = new ArrayList<>(partitions);
      return this;
    }

    /**
     * Sets how long the gate decides without a lease while the server is unreachable; after that, checks
     * fail. Such decisions are {@link Decision#stale}, and may predate a change that a call has waited for:
     * the call's answer then names the gate.
     *
     * @param stale at most 24 hours. Defaults to zero
     * @return this builder
     */
    public Builder stale(Duration stale) {
      this.stale = Objects.requireNonNull(stale, "stale");
      return this;
    }

    /**
     * Sets a function that is called in a thread of its own after the gate has switched to another policy.
     * Calls do not overlap, and a single call may cover several changes. Its exceptions are logged.
     *
     * @param onChange the function; null for none, the default
     * @return this builder
     */
    public Builder onChange(Runnable onChange) {
      this.onChange = onChange;
      return this;
    }

    /**
     * Sets a listener of the gate's own decisions, which the server's audit log lacks.
     *
     * @param onDecision the listener; null for none, the default
     * @return this builder
     */
    public Builder onDecision(DecisionListener onDecision) {
      this.onDecision = onDecision;
      return this;
    }

    /**
     * Builds the configuration. Files are read by {@link Gate#open}.
     *
     * @return the configuration
     * @throws IllegalArgumentException if a setting is out of range; the message names it
     */
    public GateConfig build() {
      expect(!stale.isNegative() && stale.compareTo(Duration.ofNanos(Bounds.MAX_STALE)) <= 0,
          "stale must be 0 to 24 h, not " + stale);
      expect(partitions.size() <= MAX_PARTITIONS, "partitions must have at most 10000 names");
      int index = 0;
      for (String partition : partitions) {
        expect(partition != null && !partition.isEmpty() && Texts.isUnicode(partition),
            "partitions[" + index++ + "] is empty or not valid Unicode");
      }
      expect(Texts.isUnicode(name), "name is not valid Unicode");
      expect(name.getBytes(java.nio.charset.StandardCharsets.UTF_8).length <= MAX_NAME_BYTES,
          "name must have at most 256 bytes");
      expect(name.chars().noneMatch(Character::isISOControl), "name must not contain control characters");
      expect(Texts.isUnicode(agent), "agent is not valid Unicode");
      expect(agent.getBytes(java.nio.charset.StandardCharsets.UTF_8).length <= MAX_AGENT_BYTES,
          "agent must have at most 64 bytes");
      expect(agent.chars().noneMatch(Character::isISOControl), "agent must not contain control characters");
      return new GateConfig(this);
    }

    private static void expect(boolean isValid, String fault) {
      if (!isValid) {
        throw new IllegalArgumentException(fault);
      }
    }
  }
}
