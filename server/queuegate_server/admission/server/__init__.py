"""The webhook's HTTPS server: connections, bodies, endpoints, and the limits on each of them."""
