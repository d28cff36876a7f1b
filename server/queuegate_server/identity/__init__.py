"""Resolves user names to groups: resolvers, their guards, and the group cache."""
