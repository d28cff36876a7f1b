"""Ships policies and groups to callers that decide in their own process."""
