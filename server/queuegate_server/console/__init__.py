"""The web console: pages on the operations port, rendered by the server.

A page shows in a browser the answers that the RPCs give, to the same callers with the same roles.
Every page is a whole document and works without scripts.
"""
