package io.queuegate.hadoop;

/** Decides with the groups of queuegate's resolvers, which the gate copies and the server invalidates. */
final class ServersGroupsGate implements QueueGate {
  private final GateLink link;

  ServersGroupsGate(GateLink link) {
    this.link = link;
  }

  @Override
  public Answer decide(QueueCheck check) {
    return link.decideWithServersGroups(check);
  }

  @Override
  public void awaitGroups(String user, long millis) throws InterruptedException {
    link.awaitGroups(user, millis);
  }
}
