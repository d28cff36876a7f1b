"""Resolvers that look up users' groups, their guards, and the group cache."""
