"""What would happen: operator times, memory, step costs and the serving simulation."""
