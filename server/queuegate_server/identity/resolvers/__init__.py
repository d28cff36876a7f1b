"""The built-in resolvers, listed in `resolver_types`."""
