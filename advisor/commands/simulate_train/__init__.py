"""`advisor simulate train`."""
