"""Groups over HTTPS: what the resolvers for identity providers with a REST API share.

settings     options
requests     client, answers, tokens, paging, names
lookups      resolver
changes      following
errors       faults
metrics      instrumentation
"""
