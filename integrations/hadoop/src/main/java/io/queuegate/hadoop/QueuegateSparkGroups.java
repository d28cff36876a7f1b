package io.queuegate.hadoop;

import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.security.GroupMappingServiceProvider;
import scala.collection.immutable.$colon$colon;
import scala.collection.immutable.List;
import scala.collection.immutable.List$;
import scala.collection.immutable.Set;

/**
 * Gives Spark the groups of queuegate's resolvers ({@code spark.user.groups.mapping}).
 *
 * <p>It reads the same settings as {@link QueuegateGroupsMapping}, from Hadoop's configuration folder.
 */
public final class QueuegateSparkGroups implements GroupMappingServiceProvider {
  private final ServerGroups groups;

  /**
   * Connects to queuegate in the background.
   *
   * @throws IllegalArgumentException if a setting is invalid or missing; it names the key
   */
  public QueuegateSparkGroups() {
    Settings settings = Settings.of(new Configuration());
    groups = new ServerGroups(SharedLinks.of(settings, ClientLink::open), settings.lookupTimeout);
  }

  /**
   * Returns the groups of a user; empty if the directory knows no such user.
   *
   * @throws UncheckedIOException if they could not be looked up
   */
  @Override
  public Set<String> getGroups(String user) {
    try {
      return setOf(groups.of(user));
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** Returns Scala's set, by constructors and methods that Scala 2.12 and 2.13 have in common. */
  static Set<String> setOf(Iterable<String> names) {
    List<String> list = List$.MODULE$.empty();
    for (String name : names) {
      list = new $colon$colon<>(name, list);
    }
    return list.toSet();
  }
}
