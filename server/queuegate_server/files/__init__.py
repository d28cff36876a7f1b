"""Safely reads files written by others, and detects changes to them."""
