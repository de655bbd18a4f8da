"""Language models: losses per example and per token, loaders of tokenised text, checkpoints of Hugging Face's Trainer.

PyTorch is imported when a loss is computed; transformers (the extra [hf]) only by `checkpoint_callback`.
"""

from sdi.lm.checkpoints import checkpoint_callback, save_checkpoint
from sdi.lm.loaders import TokenBatches, per_token, token_batches
from sdi.lm.losses import causal_loss, causal_token_losses, masked_loss, masked_token_losses

__all__ = [
    "TokenBatches",
    "causal_loss",
    "causal_token_losses",
    "checkpoint_callback",
    "masked_loss",
    "masked_token_losses",
    "per_token",
    "save_checkpoint",
    "token_batches",
]
