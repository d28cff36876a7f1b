"""The operations port: probes, metrics and versions over HTTP."""
