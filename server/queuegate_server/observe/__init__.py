"""Observability for operators: logs, metrics, traces and the audit log."""
