"""The webhook configurations for the API server, as `queuegate-server admission manifest` writes
them.
"""
