"""Sends policies and groups to gates, which are clients that make decisions locally."""
