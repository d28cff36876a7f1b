package io.queuegate;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.channel.ChannelOption;
import io.grpc.netty.shaded.io.netty.channel.EventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.MultiThreadIoEventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.epoll.Epoll;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollDomainSocketChannel;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollIoHandler;
import io.grpc.netty.shaded.io.netty.channel.unix.DomainSocketAddress;
import io.grpc.netty.shaded.io.netty.handler.ssl.SslContext;
import io.grpc.netty.shaded.io.netty.util.concurrent.DefaultThreadFactory;
import io.grpc.stub.ClientCalls;
import io.queuegate.v1.AccessServiceGrpc;
import io.queuegate.v1.UserGroupServiceGrpc;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.UnaryOperator;

/** The connection of a client, opened on the first call and reopened if lost. */
final class Connection {
  /** Enough for a full batch with long queue paths in its results, or for a very large policy. */
  static final int MAX_RECEIVE_BYTES = 64 << 20;

  /** Messages that exceed this buffer are never retried. */
  private static final int RETRY_BUFFER_BYTES = 5 << 20;

  /** gRPC pauses up to 2 minutes between attempts to connect; calls end such a pause this often. */
  private static final long RECONNECT_NANOS = TimeUnit.SECONDS.toNanos(1);

  /** After as many calls in a row without an answer in time, later calls use a new connection. */
  private static final int MAX_UNANSWERED = 3;

  /** The shortest time between two such changes, since the server may only be slow. */
  private static final long LEAVE_NANOS = TimeUnit.SECONDS.toNanos(5);

  private final Address address;
  private final boolean isEncrypted;
  private final ManagedChannel managed;
  private final Channel channel;
  private final EventLoopGroup eventLoop; // null if shared
  private volatile String owner = "client";
  private final AtomicBoolean closed = new AtomicBoolean();
  private final AtomicLong reconnectAt = new AtomicLong(System.nanoTime());
  private final AtomicLong leaveAt = new AtomicLong(System.nanoTime());
  private final AtomicInteger unanswered = new AtomicInteger();
  private volatile boolean hasWorked;
  volatile boolean knowsColumns = true; // until the server says otherwise

  /** Throws IllegalArgumentException, which names the setting. */
  Connection(ClientConfig config, UnaryOperator<String> environment) {
    address = Address.parse(config.address, environment);
    TlsConfig tls = config.tls;
    if (tls == null && address.socketPath == null) {
      tls = TlsConfig.ofEnvironment(environment);
    }
    isEncrypted = tls != null;
    BearerToken token = token(config, environment);
    SslContext context = tls == null ? null : tls.load();
    eventLoop = address.socketPath == null ? null : eventLoop();
    NettyChannelBuilder builder =
        address.socketPath == null
            ? NettyChannelBuilder.forTarget(address.target)
            : NettyChannelBuilder.forAddress(new DomainSocketAddress(address.socketPath))
                .channelType(EpollDomainSocketChannel.class)
                // The builder sets it for all channels, but these do not support it.
                .withOption(ChannelOption.SO_KEEPALIVE, null)
                .eventLoopGroup(eventLoop)
                .overrideAuthority("localhost");
    if (context == null) {
      builder.usePlaintext();
    } else {
      builder.sslContext(context);
      if (!tls.serverName().isEmpty()) {
        builder.overrideAuthority(tls.serverName());
      }
    }
    managed =
        builder
            // A service config in DNS would replace the client's.
            .disableServiceConfigLookUp()
            .defaultServiceConfig(serviceConfig(config))
            .perRpcBufferLimit(RETRY_BUFFER_BYTES)
            .retryBufferSize(4L * RETRY_BUFFER_BYTES)
            .maxInboundMessageSize(MAX_RECEIVE_BYTES)
            // The server is on this machine or network.
            .proxyDetector(target -> null)
            // Servers disconnect a client that pings more often than every 5 minutes.
            .keepAliveTime(5, TimeUnit.MINUTES)
            .keepAliveTimeout(5, TimeUnit.SECONDS)
            .build();
    channel = token == null ? managed : ClientInterceptors.intercept(managed, token);
  }

  private BearerToken token(ClientConfig config, UnaryOperator<String> environment) {
    String setting = "tokenFile";
    String path = config.tokenFile;
    if (path.isEmpty()) {
      setting = "QUEUEGATE_TOKEN_FILE";
      path = environment.apply(setting);
    }
    if (path == null || path.isEmpty()) {
      return null;
    }
    if (!isEncrypted && !address.isLocal) {
      throw new IllegalArgumentException(
          "refusing to send the token to " + address.text
              + " unencrypted: configure TLS (ClientConfig.tls or QUEUEGATE_CA_FILE)");
    }
    return new BearerToken(setting, path);
  }

  private static EventLoopGroup eventLoop() {
    if (!Epoll.isAvailable()) {
      throw new IllegalArgumentException(
          "address: Unix sockets need Linux on x86_64 or aarch64, with netty's native library in a"
              + " temporary folder that permits execution: " + Epoll.unavailabilityCause());
    }
    return new MultiThreadIoEventLoopGroup(
        1, new DefaultThreadFactory("queuegate-socket", true), EpollIoHandler.newFactory());
  }

  /** Returns gRPC's service config, the only means to configure retries. */
  private static Map<String, ?> serviceConfig(ClientConfig config) {
    if (config.attempts == 1) {
      // gRPC still resends a call that the server never processed.
      return Collections.emptyMap();
    }
    Map<String, Object> retries = new HashMap<>();
    retries.put("maxAttempts", (double) config.attempts);
    retries.put("initialBackoff", "0.05s");
    retries.put("maxBackoff", "0.5s");
    retries.put("backoffMultiplier", 2.0);
    // A call to a server that is shutting down fails with CANCELLED.
    retries.put("retryableStatusCodes", Arrays.asList("UNAVAILABLE", "CANCELLED"));
    List<Map<String, ?>> names = new ArrayList<>();
    for (String service : Arrays.asList(AccessServiceGrpc.SERVICE_NAME, UserGroupServiceGrpc.SERVICE_NAME)) {
      names.add(Collections.singletonMap("service", service));
    }
    Map<String, Object> methods = new HashMap<>();
    methods.put("name", names);
    methods.put("retryPolicy", retries);
    // A failed attempt costs a token, and a success returns a tenth. Retries pause while less than half
    // of the tokens remain.
    Map<String, Object> throttling = new HashMap<>();
    throttling.put("maxTokens", 100.0);
    throttling.put("tokenRatio", 0.1);
    Map<String, Object> service = new HashMap<>();
    service.put("methodConfig", Collections.singletonList(methods));
    service.put("retryThrottling", throttling);
    return service;
  }

  /** Makes a call. Throws QueuegateException. */
  <Q, R> R call(MethodDescriptor<Q, R> method, CallOptions options, Q request) {
    if (closed.get()) {
      throw Failures.closed(owner);
    }
    try {
      R response = ClientCalls.blockingUnaryCall(channel, method, options, request);
      hasWorked = true;
      unanswered.set(0);
      return response;
    } catch (RuntimeException error) {
      Status.Code code = Status.fromThrowable(error).getCode();
      if (code == Status.Code.UNAVAILABLE || code == Status.Code.DEADLINE_EXCEEDED) {
        reconnect();
      }
      if (code != Status.Code.DEADLINE_EXCEEDED) {
        unanswered.set(0);
      } else if (unanswered.incrementAndGet() >= MAX_UNANSWERED
          && managed.getState(false) == ConnectivityState.READY // an attempt to connect may be slow
          && isDue(leaveAt, LEAVE_NANOS)) {
        unanswered.set(0);
        leave();
      }
      throw Failures.of(error, this);
    }
  }

  /** Ends gRPC's pause between attempts to connect, if there is one. */
  void reconnect() {
    if (isDue(reconnectAt, RECONNECT_NANOS)) {
      managed.resetConnectBackoff();
    }
  }

  /** Returns whether a time has come. If so, it comes again after an interval in nanoseconds. */
  private static boolean isDue(AtomicLong time, long interval) {
    long now = System.nanoTime();
    long at = time.get();
    return now - at >= 0 && time.compareAndSet(at, now + interval);
  }

  /**
   * Makes later calls use a new connection; calls in progress keep the old one. Otherwise, only keepalive
   * would end, after minutes, a connection to a server that hangs behind a proxy, or one that was cut.
   */
  void leave() {
    managed.enterIdle();
  }

  Channel channel() {
    return channel;
  }

  String address() {
    return address.text;
  }

  boolean isEncrypted() {
    return isEncrypted;
  }

  /** Whether the server has responded, so that the TLS settings are correct. */
  boolean hasWorked() {
    return hasWorked;
  }

  void noteWorked() {
    hasWorked = true;
  }

  /** Notes that a gate owns the connection, for messages. */
  void belongsToGate() {
    owner = "gate";
  }

  /** Returns what the caller closes: client or gate. */
  String owner() {
    return owner;
  }

  boolean isClosed() {
    return closed.get();
  }

  /** Closes the connection. Calls in progress fail. */
  void close() {
    if (closed.getAndSet(true)) {
      return;
    }
    managed.shutdownNow();
    if (eventLoop != null) {
      eventLoop.shutdownGracefully(0, 1, TimeUnit.SECONDS);
    }
  }
}
