"""Published collectives and what is predicted for them."""
