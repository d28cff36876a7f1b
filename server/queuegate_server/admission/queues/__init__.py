"""Checks the queues that Kubernetes objects name."""
