"""Several worker processes on one port, and the supervisor that runs them."""
