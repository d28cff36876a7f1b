"""Loads the scheduler's policy files and serves them as snapshots."""
