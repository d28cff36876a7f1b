package io.queuegate;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.logging.Level;
import java.util.logging.Logger;

/** Sends a bearer token, reread from its file at most once a second. */
final class BearerToken implements ClientInterceptor {
  private static final Logger LOG = Logger.getLogger(Client.class.getName());
  private static final Metadata.Key<String> HEADER =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
  private static final long CHECK_NANOS = TimeUnit.SECONDS.toNanos(1);
  private static final int MAX_TOKEN_BYTES = 4_096;

  private final String setting;
  private final Path path;
  private final AtomicBoolean isChecking = new AtomicBoolean();
  private volatile String header;
  private long nextCheck; // guarded by isChecking, like the next field
  private String loggedError = "";

  /** Throws IllegalArgumentException, which names the setting, if the file cannot be read. */
  BearerToken(String setting, String path) {
    this.setting = setting;
    try {
      this.path = Paths.get(path);
      header = read();
    } catch (IOException | RuntimeException error) {
      throw new IllegalArgumentException(setting + " " + Texts.quoted(path) + " " + error.getMessage());
    }
    nextCheck = System.nanoTime() + CHECK_NANOS;
  }

  @Override
  public <Q, R> ClientCall<Q, R> interceptCall(
      MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
    return new SimpleForwardingClientCall<Q, R>(next.newCall(method, options)) {
      @Override
      public void start(Listener<R> listener, Metadata headers) {
        headers.put(HEADER, current());
        super.start(listener, headers);
      }
    };
  }

  /** Returns the token in the file, or the last valid one. */
  private String current() {
    // Calls do not wait while another call reads the file.
    if (isChecking.compareAndSet(false, true)) {
      try {
        check();
      } finally {
        isChecking.set(false);
      }
    }
    return header;
  }

  private void check() {
    long now = System.nanoTime();
    if (now - nextCheck < 0) {
      return;
    }
    nextCheck = now + CHECK_NANOS;
    try {
      header = read();
      loggedError = "";
    } catch (IOException | RuntimeException error) {
      String text = String.valueOf(error.getMessage());
      if (!text.equals(loggedError)) {
        loggedError = text;
        LOG.log(
            Level.WARNING,
            "The token file cannot be read; calls send the last valid token: {0} {1} {2}",
            new Object[] {setting, Texts.quoted(path.toString()), text});
      }
    }
  }

  /** Returns the header. Errors never quote the content, since even a malformed token is secret. */
  private String read() throws IOException {
    if (!Files.exists(path)) {
      throw new IOException("does not exist");
    }
    if (!Files.isRegularFile(path)) { // opening a pipe blocks until it has a writer
      throw new IOException("must be a regular file");
    }
    byte[] content = new byte[MAX_TOKEN_BYTES + 1];
    int length = 0;
    try (InputStream file = Files.newInputStream(path)) {
      for (int more = 0; more >= 0 && length < content.length; length += Math.max(more, 0)) {
        more = file.read(content, length, content.length - length);
      }
    } catch (IOException error) {
      throw new IOException("cannot be read (" + error.getClass().getSimpleName() + ")");
    }
    String token = new String(Arrays.copyOf(content, length), StandardCharsets.ISO_8859_1).trim();
    boolean isAscii = token.chars().allMatch(sign -> '!' <= sign && sign <= '~');
    if (token.isEmpty() || length > MAX_TOKEN_BYTES || !isAscii) {
      throw new IOException("must contain exactly one ASCII token");
    }
    return "Bearer " + token;
  }
}
