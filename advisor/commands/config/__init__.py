"""`advisor config ...`."""
