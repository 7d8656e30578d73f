"""Time functions of a model's operators; one module per kind of operator."""
