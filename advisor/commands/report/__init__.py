"""`advisor report`."""
