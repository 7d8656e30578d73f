"""`advisor simulate fleet`."""
