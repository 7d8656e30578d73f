"""Workstations: which parts to buy, whether they fit together, what they run and what that costs."""
