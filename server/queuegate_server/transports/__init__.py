"""Transports bind addresses and dispatch gRPC calls to handlers."""
