"""What operators ask over HTTP: probes, metrics, the version."""
