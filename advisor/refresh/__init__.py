"""Live prices: lists that need no key are fetched, checked and kept next to the bundled ones."""
