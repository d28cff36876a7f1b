"""Writes the pages of docs/reference that are made from the code: `make docs-generated`."""
