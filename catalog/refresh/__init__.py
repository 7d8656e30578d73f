"""Providers' price lists as quotes: reading of documents, identification of accelerators, plausibility checks."""
