"""`advisor simulate collective`."""
