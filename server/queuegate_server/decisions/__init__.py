"""The decision core, which does not depend on gRPC, and the decision log."""
