"""Prometheus metrics.

Collectors read, at each scrape, counters that the server keeps anyway, so that a call only
increments a number. No label carries the name of a user, group or queue. deploy/OPERATIONS.md lists
all metrics.
"""
