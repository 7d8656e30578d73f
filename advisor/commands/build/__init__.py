"""`advisor build ...`."""
