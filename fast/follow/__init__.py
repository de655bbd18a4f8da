"""Following a model's calls: whose parameters, which step, and the gradient at each call."""
