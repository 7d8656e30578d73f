"""Renderers of an answer: terminal, JSON, CSV, Markdown, HTML."""
