"""Several worker processes on one port, and the process that looks after them."""
