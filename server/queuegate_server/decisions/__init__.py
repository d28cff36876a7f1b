"""The decision core, without gRPC, and the decision log."""
