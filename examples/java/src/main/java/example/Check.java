package example;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.CallCredentials;
import io.grpc.ChannelCredentials;
import io.grpc.CompositeChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.TlsChannelCredentials;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.channel.ChannelOption;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollDomainSocketChannel;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollEventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.unix.DomainSocketAddress;
import io.grpc.protobuf.StatusProto;
import io.queuegate.v1.AccessServiceGrpc;
import io.queuegate.v1.AccessType;
import io.queuegate.v1.CheckQueueAccessRequest;
import io.queuegate.v1.CheckQueueAccessResponse;
import io.queuegate.v1.UserGroupInformation;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;

/**
 * Asks whether a user may submit to a queue. Exit status 0: allowed, 1: denied, 2: wrong usage, 3: no
 * answer, which must never be treated as permission.
 */
public final class Check {
  private static final Map<String, ?> RETRIES =
      Map.of(
          "methodConfig",
          List.of(
              Map.of(
                  "name", List.of(Map.of("service", AccessServiceGrpc.SERVICE_NAME)),
                  "retryPolicy",
                      Map.of(
                          "maxAttempts", 4.0,
                          "initialBackoff", "0.05s",
                          "maxBackoff", "0.5s",
                          "backoffMultiplier", 2.0,
                          "retryableStatusCodes", List.of("UNAVAILABLE", "CANCELLED")))));

  public static void main(String[] arguments) {
    if (arguments.length < 3) {
      System.err.println("usage: java -jar check.jar ADDRESS USER QUEUE [GROUP...]");
      System.exit(2);
    }
    List<String> groups = Arrays.asList(arguments).subList(3, arguments.length);
    int status = 3;
    try {
      CheckQueueAccessResponse answer = ask(arguments[0], arguments[1], arguments[2], groups);
      System.out.println((answer.getAllowed() ? "allowed: " : "denied: ") + answer.getReason());
      status = answer.getAllowed() ? 0 : 1;
    } catch (StatusRuntimeException error) {
      System.err.println(explained(error));
    } catch (Exception | LinkageError error) {
      System.err.println(error);
    }
    System.exit(status);
  }

  /** A program that asks more than once keeps the channel. */
  private static CheckQueueAccessResponse ask(
      String address, String user, String queue, List<String> groups) throws IOException {
    CheckQueueAccessRequest question =
        CheckQueueAccessRequest.newBuilder()
            .setUser(UserGroupInformation.newBuilder().setUser(user).addAllGroups(groups))
            .setQueue(queue)
            .setAccess(AccessType.ACCESS_TYPE_SUBMIT)
            .build();
    ManagedChannel channel = channel(address).defaultServiceConfig(RETRIES).build();
    try {
      return AccessServiceGrpc.newBlockingStub(channel)
          .withDeadlineAfter((long) (timeoutSeconds() * 1e9), TimeUnit.NANOSECONDS)
          .checkQueueAccess(question);
    } finally {
      channel.shutdownNow();
    }
  }

  /** The limit for all attempts together. The first call also loads classes; 1 s is enough later. */
  private static double timeoutSeconds() {
    String text = System.getenv().getOrDefault("QUEUEGATE_TIMEOUT", "5");
    if (!text.matches("\\d*\\.?\\d+") || Double.parseDouble(text) == 0) {
      throw new IllegalArgumentException(
          "QUEUEGATE_TIMEOUT must be a number of seconds, not \"%s\"".formatted(text));
    }
    return Double.parseDouble(text);
  }

  /** Returns the status, reason and message, and when to ask again if the server knows. */
  private static String explained(StatusRuntimeException error) {
    Status status = error.getStatus();
    String reason = "no reason";
    String later = "";
    try {
      for (Any detail : StatusProto.fromThrowable(error).getDetailsList()) {
        if (detail.is(ErrorInfo.class)) {
          reason = detail.unpack(ErrorInfo.class).getReason();
        } else if (detail.is(RetryInfo.class)) {
          var delay = detail.unpack(RetryInfo.class).getRetryDelay();
          var seconds = Math.ceil(delay.getSeconds() + delay.getNanos() / 1e9);
          later = "%nask again in %.0f s".formatted(seconds);
        }
      }
    } catch (InvalidProtocolBufferException malformed) {
      later = "%n%s".formatted(malformed);
    }
    return "%s (%s): %s%s".formatted(status.getCode(), reason, status.getDescription(), later);
  }

  private static ManagedChannelBuilder<?> channel(String address) throws IOException {
    if (address.startsWith("unix:")) {
      return NettyChannelBuilder.forAddress(
              new DomainSocketAddress(address.substring("unix:".length())),
              InsecureChannelCredentials.create())
          .channelType(EpollDomainSocketChannel.class)
          // The builder sets it for all channels, but these do not support it.
          .withOption(ChannelOption.SO_KEEPALIVE, null)
          .eventLoopGroup(new EpollEventLoopGroup(1));
    }
    // Ignores proxy settings: the server is on this machine or network.
    return Grpc.newChannelBuilder(address, credentials()).proxyDetector(target -> null);
  }

  private static ChannelCredentials credentials() throws IOException {
    String caFile = System.getenv("QUEUEGATE_CA_FILE");
    String tokenFile = System.getenv("QUEUEGATE_TOKEN_FILE");
    if (caFile == null) {
      return InsecureChannelCredentials.create();
    }
    var tls = TlsChannelCredentials.newBuilder().trustManager(new File(caFile)).build();
    return tokenFile == null ? tls : CompositeChannelCredentials.create(tls, new Bearer(tokenFile));
  }

  /** Reads the token for each call, so that a new one is used at once. */
  private static final class Bearer extends CallCredentials {
    private static final Metadata.Key<String> AUTHORIZATION =
        Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
    private final Path file;

    Bearer(String file) {
      this.file = Path.of(file);
    }

    @Override
    public void applyRequestMetadata(RequestInfo request, Executor executor, MetadataApplier applier) {
      executor.execute(
          () -> {
            try {
              Metadata headers = new Metadata();
              headers.put(AUTHORIZATION, "Bearer " + Files.readString(file).strip());
              applier.apply(headers);
            } catch (IOException error) {
              applier.fail(Status.UNAUTHENTICATED.withCause(error).withDescription(error.toString()));
            }
          });
    }
  }
}
