"""Training: memory of a plan, time of a step, and cost of a run."""
