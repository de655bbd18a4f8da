"""Planning: what a run of any size will take, from a timed batch and the store's own format."""
