"""Groups over HTTPS: the common part of the resolvers for identity providers.

settings     options
requests     client, connections, answers, tokens, assertion, paging
lookups      resolver (one provider), provider (what providers do, and what Entra and Okta do
             alike), names
changes      following
limits       limits (of all answers), faults
metrics      instrumentation
"""
