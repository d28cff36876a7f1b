"""Parses configuration text into policy objects or located diagnostics. Opens no files."""
