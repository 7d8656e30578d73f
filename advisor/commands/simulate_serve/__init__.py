"""`advisor simulate serve`."""
