"""Published collectives and their predictions."""
