"""Other libraries' whole-loss scores of a meaning run, each made in a process of its own, from the same checkpoints."""

from .scores import PEERS, peer_scores

__all__ = ["PEERS", "peer_scores"]
