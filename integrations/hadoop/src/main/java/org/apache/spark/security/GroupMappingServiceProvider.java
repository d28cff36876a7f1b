package org.apache.spark.security;

import scala.collection.immutable.Set;

/** Spark's interface, to compile with. The jar does not contain it. */
public interface GroupMappingServiceProvider {
  /** Returns the groups of a user. */
  Set<String> getGroups(String userName);
}
