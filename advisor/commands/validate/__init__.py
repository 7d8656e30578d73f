"""`advisor validate ...`."""
