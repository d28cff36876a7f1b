package io.queuegate.hadoop;

/** Decides with the groups of queuegate's resolvers. The gate keeps a copy, which the server invalidates. */
final class ServerGroupsGate implements QueueGate {
  private final GateLink link;

  ServerGroupsGate(GateLink link) {
    this.link = link;
  }

  @Override
  public Answer decide(QueueCheck check) {
    return link.decideWithServerGroups(check);
  }

  @Override
  public void awaitGroups(String user, long millis) throws InterruptedException {
    link.awaitGroups(user, millis);
  }
}
