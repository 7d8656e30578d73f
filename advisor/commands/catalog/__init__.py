"""`advisor catalog ...`."""
