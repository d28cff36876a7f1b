"""Files that others write: how they are read safely, and how changes are noticed."""
