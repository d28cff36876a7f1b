"""Follows the RBAC and the queues of a cluster through its API server."""
