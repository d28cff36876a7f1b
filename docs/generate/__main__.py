"""Writes all generated pages, and the schema of the Helm chart's values."""

from pathlib import Path

from docs.generate import chart
from docs.generate.pages import PAGES

for name, generate in PAGES.items():
    Path("docs/reference", name).write_text(generate())

chart.SCHEMA.write_text(chart.generate())
