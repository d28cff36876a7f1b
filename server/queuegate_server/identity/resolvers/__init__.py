"""The built-in resolvers, listed in `registry`."""
