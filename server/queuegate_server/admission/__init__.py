"""The admission webhook, which records who creates a workload in Kubernetes."""
