"""TensorSketch: the FFT, linearity, unbiased, its exact variance, the bound, where it is tight, the smallest m."""
