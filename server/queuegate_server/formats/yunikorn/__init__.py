"""Reads, validates and loads queues.yaml as YuniKorn does."""
