"""Checkpoints on disk: torch.save's archives, folders of torch.distributed.checkpoint and of Trainer. Nothing runs."""
