"""The gRPC services: convert requests, call the engine, convert results."""
