"""Training examples as points in space: an index of them finds candidates, which the store's own scores then rank."""
