"""Sketching gradients on a device as they come: sinks, kernels, buffers, and a twin of every shipped sketch."""
