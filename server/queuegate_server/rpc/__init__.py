"""The gRPC services, which convert requests, call the engine and convert results."""
