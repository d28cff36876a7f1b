"""Runs several worker processes on one port under a supervisor."""
