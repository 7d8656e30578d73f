"""Prediction: operator times, memory, step costs, and the simulation of serving and training."""
