package io.queuegate;

import io.queuegate.v1.CheckQueueAccessColumnsRequest;
import io.queuegate.v1.CheckQueueAccessColumnsResponse;
import io.queuegate.v1.CheckQueueAccessResponse;
import io.queuegate.v1.ColumnsError;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A request with checks that share a partition and an access. It contains each name once, and the server
 * reads it faster than a batch.
 */
final class Columns {
  /** With fewer checks, columns save nothing. */
  static final int MIN_QUESTIONS = 64;

  /** The minimum if other checks need a batch, since a second request costs as much as 400 checks. */
  static final int MIN_MIXED_QUESTIONS = 512;

  /** Keeps the response below gRPC's size limit as well. */
  static final int MAX_QUESTIONS = 20_000;

  private static final int MAX_NAMES = 10_000;

  final CheckQueueAccessColumnsRequest request;
  private final List<Integer> positions; // of the checks among those of the caller

  private Columns(CheckQueueAccessColumnsRequest request, List<Integer> positions) {
    this.request = request;
    this.positions = positions;
  }

  /** Returns the requests for checks that are worth columns. All other checks need batches. */
  static List<Columns> of(List<Check> questions) {
    List<Columns> all = new ArrayList<>();
    for (List<Integer> alike : alike(questions)) {
      if (alike.size() < (alike.size() == questions.size() ? MIN_QUESTIONS : MIN_MIXED_QUESTIONS)) {
        continue;
      }
      // Split evenly, because few names repeat in a small remainder.
      int parts = (alike.size() + MAX_QUESTIONS - 1) / MAX_QUESTIONS;
      int size = (alike.size() + parts - 1) / parts;
      for (int start = 0; start < alike.size(); start += size) {
        Columns columns = of(questions, alike.subList(start, Math.min(start + size, alike.size())));
        if (columns != null) {
          all.add(columns);
        }
      }
    }
    return all;
  }

  /** Returns the positions of checks by partition and access, of those that columns can express. */
  private static Collection<List<Integer>> alike(List<Check> questions) {
    Map<List<Object>, List<Integer>> alike = new LinkedHashMap<>();
    for (int i = 0; i < questions.size(); i++) {
      Check each = questions.get(i);
      if (each.realUser().isEmpty()) {
        alike.computeIfAbsent(Arrays.asList(each.partition(), each.access()), key -> new ArrayList<>()).add(i);
      }
    }
    return alike.values();
  }

  /** Returns a request; null if it would not be shorter than a batch, or too large. */
  private static Columns of(List<Check> questions, List<Integer> positions) {
    Check first = questions.get(positions.get(0));
    CheckQueueAccessColumnsRequest.Builder request =
        CheckQueueAccessColumnsRequest.newBuilder()
            .setPartition(first.partition())
            .setAccess(Requests.access(first.access()))
            .setWithDecisions(true);
    Map<List<Object>, Integer> users = new LinkedHashMap<>();
    Map<String, Integer> queues = new LinkedHashMap<>();
    for (int position : positions) {
      Check each = questions.get(position);
      List<Object> identity = Arrays.asList(each.user(), each.groups());
      Integer user = users.putIfAbsent(identity, users.size());
      if (user == null) {
        user = users.size() - 1;
        request.addUsers(Requests.user(each));
      }
      Integer queue = queues.putIfAbsent(each.queue(), queues.size());
      request.addUserIndexes(user).addQueueIndexes(queue == null ? queues.size() - 1 : queue);
      if (Math.max(users.size(), queues.size()) > MAX_NAMES) {
        return null;
      }
    }
    if (users.size() + queues.size() > positions.size()) {
      return null;
    }
    CheckQueueAccessColumnsRequest built = request.addAllQueues(queues.keySet()).build();
    return built.getSerializedSize() > Batches.MAX_REQUEST_BYTES ? null : new Columns(built, positions);
  }

  /** Stores the results of a response at the positions of their checks. */
  void read(CheckQueueAccessColumnsResponse response, Result[] results) {
    Batches.expectCount(response.getDecisionIndexesCount(), positions.size());
    List<Result> distinct = new ArrayList<>();
    distinct.add(Batches.omitted());
    for (CheckQueueAccessResponse each : response.getDecisionsList()) {
      distinct.add(Batches.result(() -> Batches.decision(each)));
    }
    for (int i = 0; i < positions.size(); i++) {
      results[positions.get(i)] = distinct.get(index(response.getDecisionIndexes(i), distinct.size()));
    }
    for (ColumnsError each : response.getErrorsList()) {
      Result failed = Result.failed(Failures.ofItem(each.getError()));
      for (int number : each.getQuestionsList()) {
        results[positions.get(index(number, positions.size()))] = failed;
      }
    }
  }

  private static int index(int given, int limit) {
    if (given < 0 || given >= limit) {
      throw Failures.contractViolated("the response does not match the request");
    }
    return given;
  }
}
