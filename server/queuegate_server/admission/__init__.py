"""The Kubernetes side: who a workload belongs to is recorded when it is made."""
