"""Files that others write: what may be read of them, and whether they have changed."""
