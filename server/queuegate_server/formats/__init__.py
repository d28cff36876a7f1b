"""Turns configuration text into policy parts or located diagnostics. Opens no files."""
