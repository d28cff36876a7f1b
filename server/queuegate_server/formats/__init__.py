"""Configuration text in, policy parts or located problems out. Opens no file."""
