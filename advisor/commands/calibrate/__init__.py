"""`advisor calibrate`."""
