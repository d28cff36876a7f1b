"""The gRPC door: convert, call the engine, convert back."""
