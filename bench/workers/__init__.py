"""Processes of their own: ours, the peers' and the authors' release, and the memory they take."""
