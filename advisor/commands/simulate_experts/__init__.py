"""`advisor simulate experts`: balance of routed experts over accelerators."""
