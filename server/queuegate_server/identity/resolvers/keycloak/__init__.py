"""Groups from Keycloak, read from its admin REST API with a service account."""
