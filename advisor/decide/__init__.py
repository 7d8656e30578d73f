"""The search from a question to a ranked answer: candidates, optimistic bounds, simulation, prices, explanation."""
