"""Published runs of models whose weights stay in part, or all, in the host's memory."""
