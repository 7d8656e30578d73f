"""Measurements of what this machine achieves."""
