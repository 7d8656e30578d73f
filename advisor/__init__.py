"""Hardware and deployment advisor for AI: which accelerators, how many, at what cost, how fast, how sure."""

__version__ = "0.1.0"
