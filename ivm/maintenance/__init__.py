"""From the changes of relations to the changes of bindings: surgery, sensitivity, oracle, probes."""
