"""Where the server listens."""
