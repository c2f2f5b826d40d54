"""Plans: conjunctions in the form that the join evaluates, with key orders, indices and bounds."""
