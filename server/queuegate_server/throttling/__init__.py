"""Limits load: rates (token_bucket), waiting times (controlled_delay) and bytes (byte_budget)."""
