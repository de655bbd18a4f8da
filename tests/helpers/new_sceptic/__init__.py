"""A second sceptic's sketches. Nothing is imported here: other processes load single modules by their path."""
