"""The Kubernetes admission webhook, which records the creators of workloads."""
