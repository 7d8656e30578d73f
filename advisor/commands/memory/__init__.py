"""`advisor memory`."""
