"""Ships policies and groups to gates, which decide in their callers' processes."""
