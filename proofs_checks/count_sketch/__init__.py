"""CountSketch: unbiased, its exact variance, its bounds."""
