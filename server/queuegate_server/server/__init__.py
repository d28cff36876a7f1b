"""Composition and lifecycle of a server process."""
