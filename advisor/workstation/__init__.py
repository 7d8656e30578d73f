"""Workstations under a desk: which parts, whether they fit together, what they run and what that costs."""
