"""Reads a Kubernetes cluster's RBAC as a policy for its queues."""
