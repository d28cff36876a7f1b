"""Writes all generated pages."""

from pathlib import Path

from docs.generate.pages import PAGES

for name, generate in PAGES.items():
    Path("docs/reference", name).write_text(generate())
