"""The resolvers that come with queuegate, one a file; `registry` is their table."""
