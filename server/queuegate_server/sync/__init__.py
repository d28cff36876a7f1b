"""Ships policies and groups to gates. Gates decide in their callers' processes."""
