"""`advisor roofline`."""
