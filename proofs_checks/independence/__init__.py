"""Which independence of the hashes suffices, which is needed, and what the drawn tables have."""
