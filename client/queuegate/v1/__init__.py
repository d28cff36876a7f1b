"""Generated stubs of the contract `queuegate.v1`; renew them with `make proto`."""
