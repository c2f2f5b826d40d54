"""From bindings to the rows of views: layouts, supports and aggregates."""
