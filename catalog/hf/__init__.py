"""Readers that turn any local Hugging Face config.json into a model record."""
