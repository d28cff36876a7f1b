"""Reads the RBAC of a Kubernetes cluster as a policy for its queues."""
