"""What decides, without gRPC: how its parts are built, and what is recorded of its decisions."""
