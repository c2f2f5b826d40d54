"""From the changes of relations to the changes of bindings: surgeries, sensitivity, probes."""
