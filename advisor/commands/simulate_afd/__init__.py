"""`advisor simulate afd`."""
