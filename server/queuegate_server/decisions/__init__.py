"""The parts that decide, without gRPC, and the log of decisions."""
