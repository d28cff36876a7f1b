"""The web console: pages on the operations port, rendered by the server.

Pages show what the RPCs return, to the same callers with the same roles. Every page is a complete
document and works without scripts.
"""
