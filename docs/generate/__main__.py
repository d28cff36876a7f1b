"""Writes all generated pages, the schema of the Helm chart's values, and webhook configurations."""

from pathlib import Path

from docs.generate import chart, webhooks
from docs.generate.pages import PAGES

for name, generate in PAGES.items():
    Path("docs/reference", name).write_text(generate())

chart.SCHEMA.write_text(chart.generate())
webhooks.WITHOUT_QUEUES.write_text(webhooks.generate_without_queues())
webhooks.QUEUES.write_text(webhooks.generate_queues())
webhooks.CHART.write_text(webhooks.generate_chart())
for file, text in webhooks.generate_bases().items():
    file.write_text(text)
