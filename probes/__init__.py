"""What this machine really does."""
