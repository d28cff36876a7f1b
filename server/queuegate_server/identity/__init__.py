"""From a user name to groups: resolvers, and what stands between them and a decision."""
