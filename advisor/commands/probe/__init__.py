"""`advisor probe`."""
