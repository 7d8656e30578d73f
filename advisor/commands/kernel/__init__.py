"""`advisor kernel`."""
