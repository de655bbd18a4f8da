"""The other shipped sketches: their moments, claims and draws."""
