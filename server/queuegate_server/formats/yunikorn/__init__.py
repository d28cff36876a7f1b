"""queues.yaml as YuniKorn reads, validates and loads it."""
