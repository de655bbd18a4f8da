"""Following a model's calls: whose parameters, which step, whose row, and the gradient at each call."""
