"""Requests with a deadline and no waiting client: the cheapest hardware that finishes in time."""
