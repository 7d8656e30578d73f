"""Several models on one fleet, whose machines they share."""
