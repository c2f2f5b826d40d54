"""From bindings to the rows of views: supports and aggregates."""
