"""`advisor cost`."""
