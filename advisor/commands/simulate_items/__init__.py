"""`advisor simulate diffusion`, `embed` and `speech`."""
