"""The resolvers that come with queuegate, one per file; `registry` is their table."""
