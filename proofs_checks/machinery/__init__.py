"""What the checks are made of: statements with mutants, exact moments over all hashes, small looped models."""
