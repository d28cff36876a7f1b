"""The Kubernetes admission webhook, `queuegate-server admission`.

It has two halves, `annotations` (records the creators of workloads for YuniKorn) and `queues`
(checks the queues that objects name), and a `server` that both share. `registration` writes the
webhook configurations for both halves, and `process` starts the program.
"""
