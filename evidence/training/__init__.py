"""Published training runs: their conditions and what is predicted for them."""
