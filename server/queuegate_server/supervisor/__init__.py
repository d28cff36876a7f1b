"""A supervisor for several worker processes that share a port."""
