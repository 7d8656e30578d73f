"""`advisor simulate checkpoints`."""
