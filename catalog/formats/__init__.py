"""Readers of files that other programs write: one module per format, recognised by content (`registry.py`)."""
