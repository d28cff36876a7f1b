"""Transports: they bind addresses, and bring gRPC calls to their handlers."""
