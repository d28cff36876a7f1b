package io.queuegate.hadoop;

/** Decides with the groups of Hadoop's own group mapping, of which it keeps a copy. */
final class HadoopGroupsGate implements QueueGate {
  private final GateLink link;
  private final GroupsCopy groups;

  HadoopGroupsGate(GateLink link, GroupsCopy groups) {
    this.link = link;
    this.groups = groups;
    link.onInvalidation(user -> {
      if (user == null) {
        groups.invalidateAll();
      } else {
        groups.invalidate(user);
      }
    });
  }

  @Override
  public Answer decide(QueueCheck check) {
    return link.decide(check, groups.known(check.user));
  }

  @Override
  public void awaitGroups(String user, long millis) throws InterruptedException {
    groups.await(user, millis);
  }
}
