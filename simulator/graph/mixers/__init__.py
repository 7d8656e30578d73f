"""One file per kind of mixer, named as the `kind` of its record; each defines `Operators(record, hidden_size)`."""
