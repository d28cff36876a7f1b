"""Sends policies and groups to gates: clients that decide locally, in the calling process."""
