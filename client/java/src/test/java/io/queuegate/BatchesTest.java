package io.queuegate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.queuegate.v1.CheckQueueAccessColumnsResponse;
import io.queuegate.v1.CheckQueueAccessRequest;
import io.queuegate.v1.CheckQueueAccessResponse;
import io.queuegate.v1.CheckResult;
import io.queuegate.v1.ColumnsError;
import io.queuegate.v1.Status;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** Many checks in a request: batches, columns, and their results. */
class BatchesTest {
  private static final Status NOT_FOUND = Status.newBuilder().setCode(5).setMessage("no partition").build();

  private static CheckQueueAccessResponse decision(boolean allowed, io.queuegate.v1.Reason reason) {
    return CheckQueueAccessResponse.newBuilder().setAllowed(allowed).setReason(reason).build();
  }

  private static String outcome(Result result) {
    return result.error() == null
        ? String.valueOf(result.allowed())
        : result.error().code() + " " + result.error().getMessage();
  }

  @Test
  void resultsOfABatch() {
    CheckQueueAccessResponse granted = decision(true, io.queuegate.v1.Reason.REASON_USER);
    CheckQueueAccessResponse odd = decision(true, io.queuegate.v1.Reason.REASON_NO_MATCH);
    List<Result> results =
        Batches.ofQueues(
            Arrays.asList(
                CheckResult.newBuilder().setError(NOT_FOUND).build(),
                CheckResult.newBuilder().setDecision(granted).build(),
                CheckResult.newBuilder().setSameErrorAs(0).build(),
                CheckResult.newBuilder().setSameErrorAs(1).build(), // which is no error
                CheckResult.newBuilder().setSameErrorAs(-1).build(),
                CheckResult.getDefaultInstance(),
                CheckResult.newBuilder().setDecision(odd).build()),
            7);
    String omitted = "INTERNAL the server omitted a result";
    assertEquals(
        Arrays.asList(
            "NOT_FOUND no partition", "true", "NOT_FOUND no partition", omitted, omitted, omitted,
            "INTERNAL the server's response contradicts itself: allowed, with the reason NO_MATCH"),
        results.stream().map(BatchesTest::outcome).collect(Collectors.toList()));
    assertSame(results.get(0), results.get(2));
    assertThrows(
        QueuegateException.ServerFailed.class,
        () -> Batches.ofQueues(Collections.singletonList(CheckResult.getDefaultInstance()), 2));
  }

  @Test
  void requestsAreSplit() {
    List<Integer> sizes = new ArrayList<>();
    CheckQueueAccessRequest small = CheckQueueAccessRequest.newBuilder().setQueue("root").build();
    Batches.ask(Collections.nCopies(10_001, small), i -> i, batch -> {
      sizes.add(batch.size());
      return Collections.emptyList();
    });
    assertEquals(Arrays.asList(10_000, 1), sizes);
    CheckQueueAccessRequest large =
        CheckQueueAccessRequest.newBuilder().setQueue(new String(new char[5 << 20])).build();
    QueuegateException.MessageTooLarge error =
        assertThrows(
            QueuegateException.MessageTooLarge.class,
            () -> Batches.ask(Collections.singletonList(large), i -> 7, batch -> Collections.emptyList()));
    assertTrue(error.getMessage().startsWith("checks[7] exceeds"), error.getMessage());
  }

  private static List<Check> questions(int count) {
    List<Check> questions = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      questions.add(Check.of("user" + i % 2, "root." + i % 3));
    }
    return questions;
  }

  @Test
  void columnsContainEachNameOnce() {
    List<Check> questions = questions(62);
    assertEquals(0, Columns.of(questions).size());
    questions.add(Check.of("user0", "root.0").withGroups(Collections.emptyList()));
    questions.add(Check.of("user0", "root.0").withGroups(Collections.singletonList("g")));
    Columns columns = Columns.of(questions).get(0);
    assertEquals(Arrays.asList("root.0", "root.1", "root.2"), columns.request.getQueuesList());
    assertEquals(4, columns.request.getUsersCount());
    assertTrue(columns.request.getUsers(2).getNoGroups());
    assertEquals(Arrays.asList(0, 1, 0, 1), columns.request.getUserIndexesList().subList(0, 4));
    assertEquals(Arrays.asList(0, 1, 2, 0), columns.request.getQueueIndexesList().subList(0, 4));
    assertEquals(3, columns.request.getUserIndexes(63));
  }

  @Test
  void whatColumnsCannotExpressNeedsABatch() {
    List<Check> alike = questions(511);
    for (Check odd :
        Arrays.asList(
            Check.of("a", "root").withRealUser("livy"),
            Check.of("a", "root").withAccess(Access.ADMIN),
            Check.of("a", "root").withPartition("gpu"))) {
      List<Check> questions = new ArrayList<>(alike);
      questions.add(odd);
      assertEquals(0, Columns.of(questions).size(), odd.toString());
      questions.add(alike.get(0));
      assertEquals(512, Columns.of(questions).get(0).request.getUserIndexesCount());
    }
    List<Check> distinct = new ArrayList<>();
    for (int i = 0; i < 100; i++) {
      distinct.add(Check.of("user" + i, "root." + i));
    }
    assertEquals(0, Columns.of(distinct).size(), "no name repeats");
    assertEquals(
        Arrays.asList(15_001, 15_000),
        Columns.of(questions(30_001)).stream()
            .map(each -> each.request.getUserIndexesCount())
            .collect(Collectors.toList()));
  }

  private static Result[] read(int count, CheckQueueAccessColumnsResponse.Builder response) {
    Result[] results = new Result[count];
    Columns.of(questions(count)).get(0).read(response.build(), results);
    return results;
  }

  @Test
  void resultsOfColumns() {
    CheckQueueAccessColumnsResponse.Builder response =
        CheckQueueAccessColumnsResponse.newBuilder()
            .addDecisions(decision(true, io.queuegate.v1.Reason.REASON_USER))
            .addDecisions(decision(false, io.queuegate.v1.Reason.REASON_NO_MATCH))
            .addErrors(ColumnsError.newBuilder().setError(NOT_FOUND).addQuestions(2))
            .addAllDecisionIndexes(Arrays.asList(2, 1, 0, 0))
            .addAllDecisionIndexes(Collections.nCopies(60, 1));
    Result[] results = read(64, response);
    assertFalse(results[0].allowed());
    assertNull(results[0].error());
    assertTrue(results[1].allowed() && results[63].allowed());
    assertEquals("NOT_FOUND no partition", outcome(results[2]));
    assertEquals("INTERNAL the server omitted a result", outcome(results[3]));
    for (CheckQueueAccessColumnsResponse.Builder wrong :
        Arrays.asList(
            response.clone().setDecisionIndexes(5, 3),
            response.clone().setDecisionIndexes(5, -1),
            response.clone().addDecisionIndexes(1),
            response.clone().addErrors(ColumnsError.newBuilder().addQuestions(64)))) {
      assertThrows(QueuegateException.ServerFailed.class, () -> read(64, wrong));
    }
  }
}
