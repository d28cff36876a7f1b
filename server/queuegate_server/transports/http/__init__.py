"""Decisions as JSON over HTTP, as in the OpenID Foundation's Authorization API 1.0 (AuthZEN).

JSON becomes a message of the contract, the handler that is registered for gRPC answers it, and its
message becomes JSON. All checks, limits, records and counts are in the handler.
"""
