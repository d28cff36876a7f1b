package io.queuegate;

import com.google.protobuf.MessageLite;
import io.queuegate.v1.CheckQueueAccessResponse;
import io.queuegate.v1.CheckResult;
import io.queuegate.v1.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.function.IntUnaryOperator;
import java.util.function.Supplier;

/** Splits checks into as few requests as possible, and reads decisions and results. */
final class Batches {
  private static final int MAX_BATCH = 10_000;
  static final int MAX_REQUEST_BYTES = 4 << 20; // gRPC's default limit for servers
  private static final int ITEM_OVERHEAD = 5; // the longest tag and length before a check
  private static final Reason[] REASONS = new Reason[io.queuegate.v1.Reason.values().length];

  static {
    for (io.queuegate.v1.Reason each : io.queuegate.v1.Reason.values()) {
      REASONS[each.ordinal()] =
          each == io.queuegate.v1.Reason.UNRECOGNIZED
              ? Reason.UNSPECIFIED
              : Reason.valueOf(each.name().substring("REASON_".length()));
    }
  }

  private Batches() {}

  /**
   * Asks all questions. Throws the error of the first request that fails.
   *
   * @param position the position of each question among those of the caller, for errors
   */
  static <Q extends MessageLite> List<Result> ask(
      List<Q> questions, IntUnaryOperator position, Function<List<Q>, List<Result>> request) {
    List<Result> results = new ArrayList<>(questions.size());
    List<Q> batch = new ArrayList<>();
    int size = 0;
    for (int i = 0; i < questions.size(); i++) {
      Q each = questions.get(i);
      int itemSize = each.getSerializedSize() + ITEM_OVERHEAD;
      if (itemSize > MAX_REQUEST_BYTES) {
        throw Failures.tooLarge(
            "checks[" + position.applyAsInt(i) + "] exceeds the size limit of a request (4 MiB)");
      }
      if (batch.size() == MAX_BATCH || size + itemSize > MAX_REQUEST_BYTES) {
        results.addAll(request.apply(batch));
        batch = new ArrayList<>();
        size = 0;
      }
      batch.add(each);
      size += itemSize;
    }
    if (!batch.isEmpty()) {
      results.addAll(request.apply(batch));
    }
    return results;
  }

  static List<Result> ofQueues(List<CheckResult> items, int expected) {
    expectCount(items.size(), expected);
    List<Result> results = new ArrayList<>(items.size());
    for (CheckResult item : items) {
      results.add(
          item.hasDecision()
              ? result(() -> decision(item.getDecision()))
              : failed(
                  results,
                  item.hasError() ? item.getError() : null,
                  item.hasSameErrorAs() ? item.getSameErrorAs() : -1));
    }
    return results;
  }

  static void expectCount(int count, int expected) {
    if (count != expected) {
      throw Failures.contractViolated("the server returned " + count + " results for " + expected + " checks");
    }
  }

  /** Returns a result of several, which may contradict itself independently of the others. */
  static Result result(Supplier<Decision> decision) {
    try {
      return Result.of(decision.get());
    } catch (QueuegateException error) {
      return Result.failed(error);
    }
  }

  /** Returns an error, or if it is null, the one at an earlier position; negative for none. */
  private static Result failed(List<Result> earlier, Status error, int sameAs) {
    if (error != null) {
      return Result.failed(Failures.ofItem(error));
    }
    boolean isEarlier = sameAs >= 0 && sameAs < earlier.size() && earlier.get(sameAs).error() != null;
    return isEarlier ? earlier.get(sameAs) : omitted();
  }

  static Result omitted() {
    return Result.failed(Failures.contractViolated("the server omitted a result"));
  }

  static Decision decision(CheckQueueAccessResponse given) {
    return consistent(
        new Decision(
            given.getAllowed(),
            reason(given.getReason()),
            given.getMatchedQueue(),
            given.getMatchedSubject(),
            given.getPolicyRevision(),
            given.getEvaluatedQueue(),
            false));
  }

  static Reason reason(io.queuegate.v1.Reason given) {
    return REASONS[given.ordinal()];
  }

  /** If the outcome contradicts the reason, neither can be trusted. */
  private static Decision consistent(Decision decision) {
    Reason reason = decision.reason();
    if (reason != Reason.UNSPECIFIED && reason.grants() != decision.allowed()) {
      throw Failures.contractViolated(
          "the server's response contradicts itself: "
              + (decision.allowed() ? "allowed" : "denied") + ", with the reason " + reason);
    }
    return decision;
  }
}
