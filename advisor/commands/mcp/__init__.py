"""`advisor mcp`."""
