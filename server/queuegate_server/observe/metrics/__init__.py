"""Every metric. Collectors read, at each scrape, counts that the server keeps anyway, so
that answering a call costs no more than adding to a number.

No label carries the name of a user, group or queue. deploy/OPERATIONS.md has the table.
"""
