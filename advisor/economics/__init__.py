"""The cost of tokens: shares of a machine's time, ownership, fleets, break-evens, energy and carbon."""
