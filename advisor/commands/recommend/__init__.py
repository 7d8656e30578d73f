"""`advisor recommend` and `replay`."""
