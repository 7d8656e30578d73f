"""`advisor serve-api`."""
