"""Reads files written by others safely, and detects changes."""
