"""Time functions of the operators that a model is made of; one module per kind of operator."""
