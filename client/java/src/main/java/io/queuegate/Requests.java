package io.queuegate;

import io.queuegate.v1.AccessType;
import io.queuegate.v1.CheckQueueAccessRequest;
import io.queuegate.v1.UserGroupInformation;
import java.util.List;
import java.util.Objects;

/** Converts questions to messages of the contract, and finds the fields that can never be sent. */
final class Requests {
  private Requests() {}

  static CheckQueueAccessRequest request(Check question) {
    return CheckQueueAccessRequest.newBuilder()
        .setUser(user(question))
        .setPartition(question.partition())
        .setQueue(question.queue())
        .setAccess(access(question.access()))
        .setRealUser(question.realUser())
        .build();
  }

  static UserGroupInformation user(Check question) {
    UserGroupInformation.Builder user = UserGroupInformation.newBuilder().setUser(question.user());
    if (question.groups() != null) {
      user.addAllGroups(question.groups()).setNoGroups(question.groups().isEmpty());
    }
    return user.build();
  }

  static AccessType access(Access access) {
    return access == Access.ADMIN ? AccessType.ACCESS_TYPE_ADMIN : AccessType.ACCESS_TYPE_SUBMIT;
  }

  static void validateAll(List<Check> questions) {
    Texts.Faults all = new Texts.Faults();
    for (int i = 0; i < questions.size(); i++) {
      all.addAll(i, faults(Objects.requireNonNull(questions.get(i), "question")));
    }
    all.raise();
  }

  /**
   * Returns the fields that can never be sent. Limits on lengths and characters are left to the server,
   * which may be newer.
   */
  static Texts.Faults faults(Check question) {
    Texts.Faults faults = questionFaults(question);
    faults.required("queue", question.queue());
    return faults;
  }

  static Texts.Faults questionFaults(Check question) {
    Texts.Faults faults = new Texts.Faults();
    faults.required("user.user", question.user());
    faults.groups(question.groups());
    faults.optional("partition", question.partition());
    faults.optional("real_user", question.realUser());
    return faults;
  }
}
