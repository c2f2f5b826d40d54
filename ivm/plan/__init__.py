"""Plans: conjunctions as the join takes them, with key orders, indices and bounds."""
