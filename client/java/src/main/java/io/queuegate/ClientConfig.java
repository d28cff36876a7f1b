package io.queuegate;

import java.time.Duration;
import java.util.Objects;

/** Configures a client. Immutable. */
public final class ClientConfig {
  static final Duration DEFAULT_TIMEOUT = Duration.ofSeconds(1);
  private static final Duration MAX_TIMEOUT = Duration.ofDays(1);
  private static final int MAX_ATTEMPTS = 5; // gRPC silently caps larger numbers

  final String address;
  final Duration timeout;
  final TlsConfig tls;
  final String tokenFile;
  final int attempts;

  private ClientConfig(Builder builder) {
    address = builder.address;
    timeout = builder.timeout;
    tls = builder.tls;
    tokenFile = builder.tokenFile;
    attempts = builder.attempts;
  }

  /**
   * Starts with the defaults.
   *
   * @return a builder
   */
  public static Builder builder() {
    return new Builder();
  }

  static void checkTimeout(Duration timeout) {
    if (timeout.isNegative() || timeout.isZero() || timeout.compareTo(MAX_TIMEOUT) > 0) {
      throw new IllegalArgumentException("timeout must be positive and at most a day, not " + timeout);
    }
  }

  /** Sets values other than the defaults. Not safe for concurrent use. */
  public static final class Builder {
    private String address = "";
    private Duration timeout = DEFAULT_TIMEOUT;
    private TlsConfig tls;
    private String tokenFile = "";
    private int attempts = 4;

    private Builder() {}

    /**
     * Sets the server's address. Defaults to the environment variable QUEUEGATE_ADDRESS, or else to
     * {@code 127.0.0.1:50051}.
     *
     * @param address HOST:PORT, [IPV6]:PORT or unix:/PATH. Unix sockets need Linux
     * @return this builder
     */
    public Builder address(String address) {
      this.address = Objects.requireNonNull(address, "address");
      return this;
    }

    /**
     * Sets the time limit of a call, including retries and additional pages. Defaults to 1 s. {@link
     * Client#within} sets another one.
     *
     * @param timeout positive, and at most a day
     * @return this builder
     */
    public Builder timeout(Duration timeout) {
      this.timeout = Objects.requireNonNull(timeout, "timeout");
      return this;
    }

    /**
     * Sets TLS. By default, the settings come from the environment variables QUEUEGATE_CA_FILE,
     * QUEUEGATE_CERTIFICATE_FILE, QUEUEGATE_KEY_FILE and QUEUEGATE_SERVER_NAME, except for Unix sockets;
     * if none is set, connections are plaintext.
     *
     * @param tls the settings; null for the default
     * @return this builder
     */
    public Builder tls(TlsConfig tls) {
      this.tls = tls;
      return this;
    }

    /**
     * Sets the regular file with the bearer token, reread when it changes. While it cannot be read, calls
     * send the last token, and a warning is logged. Defaults to the environment variable
     * QUEUEGATE_TOKEN_FILE. A token is sent only over TLS or within this machine.
     *
     * @param tokenFile the path of the file; empty for the default
     * @return this builder
     */
    public Builder tokenFile(String tokenFile) {
      this.tokenFile = Objects.requireNonNull(tokenFile, "tokenFile");
      return this;
    }

    /**
     * Sets how often a call is tried that fails with UNAVAILABLE, or with CANCELLED because the server
     * is shutting down. All calls are idempotent, so retries are safe. The pause before the second attempt
     * is 50 ms, and it doubles each time up to 500 ms. Retries respect a delay that the server requests,
     * and pause while most calls fail.
     *
     * @param attempts the maximum number of attempts, from 1 (no retries) to 5. Defaults to 4
     * @return this builder
     */
    public Builder attempts(int attempts) {
      this.attempts = attempts;
      return this;
    }

    /**
     * Builds the configuration. Files and the address are read by {@link Client#connect}.
     *
     * @return the configuration
     * @throws IllegalArgumentException if a setting is out of range; the message names it
     */
    public ClientConfig build() {
      checkTimeout(timeout);
      if (attempts < 1 || attempts > MAX_ATTEMPTS) {
        throw new IllegalArgumentException("attempts must be 1 to " + MAX_ATTEMPTS + ", not " + attempts);
      }
      return new ClientConfig(this);
    }
  }
}
