"""Group lookups: resolvers, their guards, and the group cache."""
