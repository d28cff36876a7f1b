"""From a user name to groups: resolvers, the guards around them, and the group cache."""
