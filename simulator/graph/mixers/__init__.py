"""Mixers: one file per kind, named as the `kind` of its record; each defines `Operators(record, hidden_size)`."""
