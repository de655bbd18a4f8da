"""Step gradients: the total derivative, outer products, what truncation and an early read-out leave out."""
