"""Configuration text in, policy parts or located diagnostics out. Opens no file."""
