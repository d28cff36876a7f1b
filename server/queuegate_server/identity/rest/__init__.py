"""Groups over HTTPS: the common part of the resolvers for identity providers.

settings     provider_options
requests     rest_client, paced_connections, answers, access_tokens, assertion, paging
lookups      rest_resolver (one provider), provider (what providers do, and what Entra and Okta
             share), provider_names
changes      change_queries
limits       answer_limits (of all answers), faults
metrics      request_statistics
"""
