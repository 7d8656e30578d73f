"""Pre-training, fine-tuning and reinforcement learning: clusters, plans, days and dollars."""
