"""The Kubernetes side: records the creator of a workload as its owner."""
