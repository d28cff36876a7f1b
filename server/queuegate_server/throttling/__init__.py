"""Limits load: rates (`token_bucket`), waiting times (`controlled_delay`), bytes (`byte_budget`)."""
