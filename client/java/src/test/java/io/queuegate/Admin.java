package io.queuegate;

import io.queuegate.v1.InvalidateUserGroupsRequest;
import io.queuegate.v1.InvalidateUserGroupsResponse;
import io.queuegate.v1.PolicyServiceGrpc;
import io.queuegate.v1.ReloadPolicyRequest;
import io.queuegate.v1.ReloadPolicyResponse;
import io.queuegate.v1.UserGroupServiceGrpc;
import java.util.Collection;

/** What administrators do to a server while gates decide. */
final class Admin {
  private Admin() {}

  static ReloadPolicyResponse reload(Client client, boolean wait) {
    Client patient = client.within(Server.PATIENT);
    ReloadPolicyRequest request = ReloadPolicyRequest.newBuilder().setWait(wait).build();
    return patient.ask(PolicyServiceGrpc.getReloadPolicyMethod(), request, patient.limit());
  }

  /** Invalidates the groups of users, or of all if none are named, and waits for the gates. */
  static InvalidateUserGroupsResponse invalidate(Client client, String partition, Collection<String> users) {
    Client patient = client.within(Server.PATIENT);
    InvalidateUserGroupsRequest request =
        InvalidateUserGroupsRequest.newBuilder()
            .setPartition(partition)
            .addAllUsers(users)
            .setWait(true)
            .build();
    return patient.ask(UserGroupServiceGrpc.getInvalidateUserGroupsMethod(), request, patient.limit());
  }
}
