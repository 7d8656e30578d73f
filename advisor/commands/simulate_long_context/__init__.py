"""`advisor simulate long-context` and `offload`."""
