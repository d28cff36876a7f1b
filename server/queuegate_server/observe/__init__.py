"""What operators see: logs, metrics, the audit log."""
