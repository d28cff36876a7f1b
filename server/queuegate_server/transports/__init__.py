"""Transports, which bind addresses and pass gRPC calls to their handlers."""
