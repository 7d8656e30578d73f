"""`advisor simulate vision` and `adapters`."""
