"""`advisor simulate trace`."""
