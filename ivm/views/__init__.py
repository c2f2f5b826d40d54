"""Turn bindings into rows of views: layouts, supports and aggregates."""
