"""Writes the pages of docs/reference that are generated from the code: `make docs-generated`."""
