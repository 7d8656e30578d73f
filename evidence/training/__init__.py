"""Published training runs: their conditions and predictions."""
