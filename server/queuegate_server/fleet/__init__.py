"""A fleet: servers that share groups and invalidations through Redis or Valkey."""
