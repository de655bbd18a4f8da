"""What runs: the fast backend and its kernels against the reference, conservation, storage and work, drawn sketches."""
