"""The gRPC services. They parse requests, call the engine and build responses."""
