"""Generated stubs for the `queuegate.v1` contract. Regenerate them with `make proto`."""
