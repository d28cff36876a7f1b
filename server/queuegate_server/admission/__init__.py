"""The Kubernetes side: records the owner of a workload when it is created."""
