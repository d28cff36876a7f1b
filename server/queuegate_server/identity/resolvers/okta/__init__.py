"""Groups from Okta, read from its management API with an API token or as a service app."""
