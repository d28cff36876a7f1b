"""The gRPC services. They convert requests, call the engine and convert results."""
