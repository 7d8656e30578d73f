"""`advisor compare`."""
