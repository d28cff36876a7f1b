"""Decisions as JSON over HTTP, by the OpenID Foundation's Authorization API 1.0 (AuthZEN).

JSON becomes a message of the contract, the handler that is registered for gRPC answers it, and its
message becomes JSON. Whatever is checked, limited, recorded or counted is so in the handler.
"""
