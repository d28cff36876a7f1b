package io.queuegate;

import static org.junit.jupiter.api.Assertions.assertNotNull;

import com.google.protobuf.ByteString;
import io.grpc.BindableService;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import io.queuegate.internal.Policies;
import io.queuegate.v1.AccessServiceGrpc;
import io.queuegate.v1.BatchCheckQueueAccessRequest;
import io.queuegate.v1.BatchCheckQueueAccessResponse;
import io.queuegate.v1.CheckQueueAccessRequest;
import io.queuegate.v1.CheckQueueAccessResponse;
import io.queuegate.v1.CheckResult;
import io.queuegate.v1.PolicyPart;
import io.queuegate.v1.SyncCheckpoint;
import io.queuegate.v1.SyncOpen;
import io.queuegate.v1.SyncOpened;
import io.queuegate.v1.SyncPong;
import io.queuegate.v1.SyncRequest;
import io.queuegate.v1.SyncResponse;
import io.queuegate.v1.SyncServiceGrpc;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.Predicate;

/** A scripted server of the contract on a real socket, which grants every check with revision 7. */
final class FakeServer implements AutoCloseable {
  final BlockingQueue<FakeStream> streams = new LinkedBlockingQueue<>();
  final List<Object> asked = new CopyOnWriteArrayList<>();
  final List<Metadata> headers = new CopyOnWriteArrayList<>();
  final AtomicReference<Status> failure = new AtomicReference<>(); // of the next calls; null for none
  volatile boolean isSilent; // whether calls get no response
  private final io.grpc.Server server;

  FakeServer() throws IOException {
    ServerInterceptor record =
        new ServerInterceptor() {
          @Override
          public <Q, R> ServerCall.Listener<Q> interceptCall(
              ServerCall<Q, R> call, Metadata given, ServerCallHandler<Q, R> next) {
            headers.add(given);
            return next.startCall(call, given);
          }
        };
    server =
        NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0))
            .addService(new Access())
            .addService((BindableService) new Sync())
            .intercept(record)
            .maxInboundMessageSize(64 << 20)
            .build()
            .start();
  }

  int port() {
    return server.getPort();
  }

  String address() {
    return "127.0.0.1:" + port();
  }

  ClientConfig.Builder config() {
    return ClientConfig.builder().address(address()).timeout(Server.PATIENT);
  }

  FakeStream nextStream() throws InterruptedException {
    FakeStream stream;
    do { // on a busy machine, the gate may have given up a stream meanwhile
      stream = streams.poll(1, TimeUnit.MINUTES);
      assertNotNull(stream, "no stream was opened");
    } while (stream.hasEnded);
    return stream;
  }

  @Override
  public void close() {
    server.shutdownNow();
  }

  private final class Access extends AccessServiceGrpc.AccessServiceImplBase {
    private <R> void respond(Object request, StreamObserver<R> observer, R response) {
      asked.add(request);
      if (isSilent) {
        return;
      }
      Status status = failure.get();
      if (status != null) {
        observer.onError(status.asRuntimeException());
        return;
      }
      observer.onNext(response);
      observer.onCompleted();
    }

    @Override
    public void checkQueueAccess(
        CheckQueueAccessRequest request, StreamObserver<CheckQueueAccessResponse> observer) {
      respond(request, observer, granted());
    }

    @Override
    public void batchCheckQueueAccess(
        BatchCheckQueueAccessRequest request, StreamObserver<BatchCheckQueueAccessResponse> observer) {
      BatchCheckQueueAccessResponse.Builder response = BatchCheckQueueAccessResponse.newBuilder();
      request.getChecksList().forEach(
          each -> response.addResults(CheckResult.newBuilder().setDecision(granted())));
      respond(request, observer, response.build());
    }

    private CheckQueueAccessResponse granted() {
      return CheckQueueAccessResponse.newBuilder()
          .setAllowed(true)
          .setReason(io.queuegate.v1.Reason.REASON_USER)
          .setPolicyRevision(7)
          .build();
    }
  }

  private final class Sync extends SyncServiceGrpc.SyncServiceImplBase {
    @Override
    public StreamObserver<SyncRequest> sync(StreamObserver<SyncResponse> responses) {
      FakeStream stream = new FakeStream((ServerCallStreamObserver<SyncResponse>) responses);
      streams.add(stream);
      return stream;
    }
  }

  /** A gate's stream. */
  static final class FakeStream implements StreamObserver<SyncRequest> {
    final BlockingQueue<SyncRequest> requests = new LinkedBlockingQueue<>();
    volatile boolean answersPings;
    volatile boolean hasEnded;
    private final ServerCallStreamObserver<SyncResponse> responses;

    FakeStream(ServerCallStreamObserver<SyncResponse> responses) {
      this.responses = responses;
      responses.setOnCancelHandler(() -> hasEnded = true);
    }

    @Override
    public void onNext(SyncRequest request) {
      if (request.hasPing() && answersPings) {
        send(pong(request));
      } else {
        requests.add(request);
      }
    }

    @Override
    public void onError(Throwable error) {
      hasEnded = true;
    }

    @Override
    public void onCompleted() {
      hasEnded = true;
    }

    synchronized void send(SyncResponse... all) {
      for (SyncResponse each : all) {
        if (!hasEnded) {
          try {
            responses.onNext(each);
          } catch (RuntimeException ended) { // the gate has cancelled the stream
            hasEnded = true;
          }
        }
      }
    }

    synchronized void end(StatusRuntimeException status) {
      responses.onError(status);
    }

    synchronized void end(Status status) {
      responses.onError(status.asRuntimeException());
    }

    /** Answers pings until the gate sends a message of a given kind. */
    SyncRequest until(Predicate<SyncRequest> is) throws InterruptedException {
      for (; ; ) {
        SyncRequest request = requests.poll(1, TimeUnit.MINUTES);
        assertNotNull(request, "the gate is silent");
        if (is.test(request)) {
          return request;
        }
        if (request.hasPing()) {
          send(pong(request));
        }
      }
    }

    SyncOpen opening() throws InterruptedException {
      return until(SyncRequest::hasOpen).getOpen();
    }

    /** Sends a policy that allows a user, and grants a lease, which is renewed from then on. */
    void greet(String user, Consumer<SyncOpened.Builder> change) throws InterruptedException {
      SyncResponse checkpoint =
          SyncResponse.newBuilder().setCheckpoint(SyncCheckpoint.newBuilder().setSequence(5)).build();
      send(opened(change), policy(user), checkpoint);
      until(request -> request.getApplied().getSequence() == 5);
      send(pong(until(SyncRequest::hasPing)));
      answersPings = true;
    }
  }

  static SyncResponse pong(SyncRequest ping) {
    SyncPong pong = SyncPong.newBuilder().setId(ping.getPing().getId()).build();
    return SyncResponse.newBuilder().setPong(pong).build();
  }

  static SyncResponse opened(Consumer<SyncOpened.Builder> change) {
    SyncOpened.Builder opened =
        SyncOpened.newBuilder()
            .setEpoch(ByteString.copyFromUtf8("epoch"))
            .setLeaseMillis(5_000)
            .setPingIntervalMillis(1_000)
            .setLocalDecisions(true);
    change.accept(opened);
    return SyncResponse.newBuilder().setOpened(opened).build();
  }

  static SyncResponse policy(String user) {
    PolicyPart.Builder part =
        new Policies()
            .queue("root", user, "")
            .build()
            .setPartition("default")
            .setFirst(true)
            .setLast(true)
            .setRevision(1)
            .setChecksum(ByteString.copyFromUtf8(user))
            .setRules(3);
    return SyncResponse.newBuilder().setPolicy(part).build();
  }
}
