"""Follows a cluster's RBAC and queues through its API server."""
