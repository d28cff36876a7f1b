"""The web console on the operations port, rendered by the server.

Pages show the same data as the RPCs, and require the same roles. Every page is a complete document
and works without scripts.
"""
