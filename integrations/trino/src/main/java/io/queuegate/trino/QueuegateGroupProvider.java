package io.queuegate.trino;

import static io.trino.spi.StandardErrorCode.GENERIC_INTERNAL_ERROR;

import io.queuegate.Client;
import io.queuegate.QueuegateException;
import io.queuegate.internal.LogText;
import io.queuegate.internal.PropertyNames;
import io.queuegate.v1.ResolveOutcome;
import io.queuegate.v1.ResolveUserGroupsResponse;
import io.trino.spi.TrinoException;
import io.trino.spi.security.GroupProvider;
import java.util.LinkedHashSet;
import java.util.Set;

/**
 * Gives Trino the groups of queuegate's resolvers.
 *
 * <p>Each lookup asks the server, which caches groups, so an invalidation takes effect at once.
 */
final class QueuegateGroupProvider implements GroupProvider {
  private final Client client;
  private final String partition;

  /** Throws IllegalArgumentException, which names the property, if a file cannot be read. */
  QueuegateGroupProvider(Settings settings) {
    try {
      client = Client.connect(settings.client());
    } catch (IllegalArgumentException error) {
      throw new IllegalArgumentException(PropertyNames.in(error.getMessage()), error.getCause());
    }
    partition = settings.partition();
  }

  /**
   * Returns the groups of a user; empty if the directory knows no such user.
   *
   * @throws TrinoException if they could not be looked up, which is never an empty set
   */
  @Override
  public Set<String> getGroups(String user) {
    ResolveUserGroupsResponse response;
    try {
      response = client.resolve(user, partition);
    } catch (QueuegateException error) {
      throw unavailable(error.getMessage(), error);
    }
    if (response.getOutcome() == ResolveOutcome.RESOLVE_OUTCOME_RESOLVED) {
      return new LinkedHashSet<>(response.getUserGroup().getGroupsList());
    }
    if (response.getOutcome() == ResolveOutcome.RESOLVE_OUTCOME_NOT_FOUND) {
      return Set.of();
    }
    throw unavailable(response.getDetail(), null);
  }

  private static TrinoException unavailable(String detail, Throwable cause) {
    return new TrinoException(
        GENERIC_INTERNAL_ERROR,
        "queuegate could not look up the user's groups: " + LogText.ofOthers(PropertyNames.in(detail)),
        cause);
  }
}
