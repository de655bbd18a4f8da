"""What is said of a chat model: growth, probes, swaps, Jacobians, sources by steps, preferences and rewards."""
