"""`advisor sweep`."""
