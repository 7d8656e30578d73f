"""What was measured elsewhere, and how predictions stand against it: replay of archives, scores, fits."""
