"""Published serving runs: their conditions, how they were made, and what is predicted for them."""
