"""What one forward pass calls and uses: the part of `sdi.find_loops` that needs PyTorch."""
