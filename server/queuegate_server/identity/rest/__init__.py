"""Groups over HTTPS: the common part of the resolvers for identity providers.

settings     options
requests     client, connections, answers, tokens, paging, names
lookups      resolver
changes      following
errors       faults
metrics      instrumentation
"""
