"""Studies: one command asked at many points, on one machine or many; they can be interrupted and resumed."""
