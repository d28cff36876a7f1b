"""A supervisor of several worker processes on one port."""
