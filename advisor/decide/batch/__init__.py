"""Requests with a deadline and nobody waiting: the cheapest hardware that is done in time."""
