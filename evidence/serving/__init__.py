"""Published serving runs: their conditions, set-ups and predictions."""
