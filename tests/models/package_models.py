"""Looped models as packages make them, built small and random, in float64; each with a loss and a batch."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn

import sdi
from sdi import lm

V, T, D = 20, 6, 16


class Case(NamedTuple):
    model: Any
    loss: Any
    batch: dict[str, Any]
    loop: sdi.Loop | None = None  # None: the first that find_loops proposes
    tau: int | None = None


def tokens(n: int = 3, length: int = T) -> dict[str, Any]:
    ids = torch.randint(1, V, (n, length), generator=torch.Generator().manual_seed(3))
    mask = torch.ones(n, length, dtype=torch.long)
    mask[1, -2:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def masked() -> dict[str, Any]:
    batch = tokens()
    return {**batch, "labels": torch.where(torch.arange(T) % 2 == 0, batch["input_ids"], -100)}


def ready(model: Any) -> Any:
    return model.double().eval()


def logits_loss(model: Any, batch: dict[str, Any]) -> Any:
    """Of a model that takes tokens alone and gives logits."""
    return lm.causal_loss(model, {"input_ids": batch["input_ids"]})


def albert() -> Case:
    from transformers import AlbertConfig, AlbertForMaskedLM

    config = AlbertConfig(
        vocab_size=V, embedding_size=8, hidden_size=D, num_hidden_layers=4, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return Case(ready(AlbertForMaskedLM(config)), lm.masked_loss, masked(), tau=4)


def perceiver() -> Case:
    from transformers import PerceiverConfig, PerceiverForMaskedLM

    config = PerceiverConfig(
        vocab_size=V, d_model=D, d_latents=12, num_latents=4, num_blocks=3, num_self_attends_per_block=2,
        num_self_attention_heads=2, num_cross_attention_heads=2, qk_channels=8, v_channels=12,
        max_position_embeddings=T, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return Case(ready(PerceiverForMaskedLM(config)), lm.masked_loss, masked(), tau=3)


def hrm_text() -> Case:
    from transformers import HrmTextConfig, HrmTextForCausalLM

    config = HrmTextConfig(
        vocab_size=V, hidden_size=D, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, head_dim=8,
        max_position_embeddings=16, H_cycles=2, L_cycles=3, L_bp_cycles=[2],
    )  # fmt: skip
    return Case(ready(HrmTextForCausalLM(config)), logits_loss, tokens(), tau=6)


def zamba2() -> Case:
    from transformers import Zamba2Config, Zamba2ForCausalLM

    config = Zamba2Config(
        vocab_size=V, hidden_size=D, num_hidden_layers=4, layers_block_type=["mamba", "hybrid", "mamba", "hybrid"],
        mamba_d_state=4, mamba_d_conv=2, mamba_expand=2, n_mamba_heads=4, num_attention_heads=4, adapter_rank=2,
        chunk_size=4, intermediate_size=24, num_mem_blocks=1, num_key_value_heads=4, max_position_embeddings=32,
        use_shared_attention_adapter=False, attention_dropout=0.0, num_logits_to_keep=0,
    )  # fmt: skip
    return Case(ready(Zamba2ForCausalLM(config)), logits_loss, tokens())


class LoopedBlock(nn.Module):
    """One block of a published model, applied again and again between an embedding and a head."""

    def __init__(self, block: nn.Module, call: Any, tau: int = 4) -> None:
        super().__init__()
        self.embed, self.block, self.head = nn.Embedding(V, D), block, nn.Linear(D, V)
        self.call, self.tau = call, tau

    def forward(self, input_ids: Any) -> Any:
        x = self.embed(input_ids)
        for _ in range(self.tau):
            out = self.call(self, x)
            x = out[0] if isinstance(out, tuple) else out
        return self.head(x)


def llama() -> Case:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

    config = LlamaConfig(vocab_size=V, hidden_size=D, intermediate_size=24, num_attention_heads=2, num_hidden_layers=1)
    config._attn_implementation = "eager"
    rotary = LlamaRotaryEmbedding(config)

    def call(net: Any, x: Any) -> Any:
        places = torch.arange(x.shape[1])[None].expand(len(x), -1)
        ahead = torch.full((x.shape[1], x.shape[1]), -1e9, dtype=x.dtype).triu(1)[None, None]
        return net.block(x, attention_mask=ahead, position_ids=places, position_embeddings=rotary(x, places))

    return Case(ready(LoopedBlock(LlamaDecoderLayer(config, 0), call)), logits_loss, tokens(), tau=4)


class CachedLlama(LoopedBlock):
    """Attends to the keys of the loops before as well, which a cache holds."""

    def forward(self, input_ids: Any) -> Any:
        from transformers import DynamicCache

        x, cache = self.embed(input_ids), DynamicCache()
        for t in range(self.tau):
            x = self.call(self, x, cache, t)
        return self.head(x)


def llama_cached() -> Case:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

    config = LlamaConfig(vocab_size=V, hidden_size=D, intermediate_size=24, num_attention_heads=2, num_hidden_layers=1)
    config._attn_implementation = "eager"
    rotary = LlamaRotaryEmbedding(config)

    def call(net: Any, x: Any, cache: Any, t: int) -> Any:
        places = torch.arange(x.shape[1])[None].expand(len(x), -1)
        ahead = torch.full((x.shape[1], x.shape[1]), -1e9, dtype=x.dtype).triu(1)
        mask = torch.cat([torch.zeros(len(ahead), t * len(ahead), dtype=x.dtype), ahead], dim=1)[None, None]
        turned = rotary(x, places)
        return net.block(
            x, attention_mask=mask, position_ids=places, position_embeddings=turned, past_key_values=cache,
            use_cache=True,
        )  # fmt: skip

    return Case(ready(CachedLlama(LlamaDecoderLayer(config, 0), call, 3)), logits_loss, tokens(), tau=3)


def llama_layers() -> Case:
    """Its layers as steps; in evaluation mode, it makes a cache by default."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=V, hidden_size=D, intermediate_size=24, num_attention_heads=2, num_hidden_layers=3)
    layers = [f"model.layers.{k}" for k in range(3)]

    def loss(model: Any, batch: dict[str, Any]) -> Any:
        said = model(batch["input_ids"], use_cache=True)
        assert said.past_key_values is not None
        return said.logits.square().mean(dim=(1, 2))

    return Case(ready(LlamaForCausalLM(config)), loss, tokens(), sdi.Loop(layers, layers), tau=3)


def gpt2_block() -> nn.Module:
    from transformers import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2Block

    config = GPT2Config(vocab_size=V, n_embd=D, n_head=2, n_layer=1, resid_pdrop=0.0, attn_pdrop=0.0)
    config._attn_implementation = "eager"
    return GPT2Block(config, layer_idx=0)


def gpt2() -> Case:
    return Case(ready(LoopedBlock(gpt2_block(), lambda net, x: net.block(x))), logits_loss, tokens(), tau=4)


def mamba() -> Case:
    from transformers import MambaConfig
    from transformers.models.mamba.modeling_mamba import MambaBlock

    config = MambaConfig(vocab_size=V, hidden_size=D, state_size=4, num_hidden_layers=1, conv_kernel=2, expand=2)
    return Case(
        ready(LoopedBlock(_random(MambaBlock(config, 0)), lambda net, x: net.block(x))), logits_loss, tokens(), tau=4
    )  # fmt: skip


def mixtral() -> Case:
    from transformers import MixtralConfig
    from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock

    config = MixtralConfig(hidden_size=D, intermediate_size=24, num_local_experts=3, num_experts_per_tok=2)
    config._experts_implementation = "eager"
    return Case(
        ready(LoopedBlock(_random(MixtralSparseMoeBlock(config)), lambda net, x: net.block(x), 3)),
        logits_loss, tokens(), tau=3,
    )  # fmt: skip


def _random(module: nn.Module) -> nn.Module:
    """Some layers are made without values, which from_pretrained fills in."""
    for p in module.parameters():
        nn.init.normal_(p, std=0.2)
    return module


def x_transformers_tied() -> Case:
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=D, depth=3, heads=2, attn_dim_head=8, weight_tie_layers=True)
    net = TransformerWrapper(num_tokens=V, max_seq_len=16, attn_layers=layers)
    return Case(ready(net), logits_loss, tokens())


def x_transformers_looped() -> Case:
    from x_transformers import Decoder

    block = Decoder(dim=D, depth=1, heads=2, attn_dim_head=8)
    return Case(ready(LoopedBlock(block, lambda net, x: net.block(x))), logits_loss, tokens(), tau=4)


def hrm_pytorch() -> Case:
    from HRM import HRM

    nets = [{"dim": D, "depth": 1, "heads": 2, "attn_dim_head": 8} for _ in range(2)]
    net = HRM(networks=nets, dim=D, num_tokens=V, reasoning_steps=2, relative_period=2)

    def loss(model: Any, batch: dict[str, Any]) -> Any:
        logits, _ = model(batch["input_ids"], one_step_grad=False)
        return nn.functional.cross_entropy(logits.transpose(1, 2), batch["input_ids"], reduction="none").mean(dim=1)

    return Case(ready(net), loss, tokens(), tau=4)


def tiny_recursive() -> Case:
    from tiny_recursive_model import TinyRecursiveModel
    from x_transformers import Encoder

    net = TinyRecursiveModel(
        dim=D, num_tokens=V, network=Encoder(dim=D, depth=1, heads=2, attn_dim_head=8), num_refinement_blocks=2,
        num_latent_refinements=2, num_register_tokens=0,
    )  # fmt: skip

    def rounds(model: Any, batch: dict[str, Any]) -> Any:
        """Deep supervision: two rounds, each with a loss."""
        outputs, latents = model.get_initial()
        total = 0.0
        for _ in range(2):
            _, (loss, _), outputs, latents, _, _ = model(
                batch["input_ids"], outputs, latents, labels=batch["input_ids"]
            )
            total = total + loss
        return total

    return Case(ready(net), rounds, tokens(), sdi.Loop(body=["network"], step="network", calls="continue"), tau=12)


def perceiver_pytorch() -> Case:
    from perceiver_pytorch import Perceiver

    net = Perceiver(
        num_freq_bands=2, depth=3, max_freq=4.0, input_channels=2, input_axis=1, num_latents=4, latent_dim=12,
        cross_heads=1, latent_heads=2, cross_dim_head=8, latent_dim_head=8, num_classes=5, attn_dropout=0.0,
        ff_dropout=0.0, weight_tie_layers=True, self_per_cross_attn=1,
    )  # fmt: skip

    def loss(model: Any, batch: dict[str, Any]) -> Any:
        return nn.functional.cross_entropy(model(batch["x"]), batch["y"], reduction="none")

    batch = {"x": torch.randn(3, T, 2, dtype=torch.float64), "y": torch.tensor([0, 3, 4])}
    return Case(ready(net), loss, batch)


class RecurrentDepth(nn.Module):
    """Prelude, a core of random depth from a random state, truncated backpropagation, coda (a Huginn in small)."""

    def __init__(self, tau: int = 5, graded: int = 3) -> None:
        super().__init__()
        self.embed, self.head, self.tau, self.graded = nn.Embedding(V, D), nn.Linear(D, V), tau, graded
        self.prelude, self.core, self.coda = gpt2_block(), gpt2_block(), gpt2_block()
        self.adapter = nn.Linear(2 * D, D)

    def forward(self, input_ids: Any, state: Any, tau: Any = None) -> Any:
        steps = self.tau if tau is None else int(tau[0])
        e = self._run(self.prelude, self.embed(input_ids))
        for t in range(steps):
            with torch.set_grad_enabled(t >= steps - self.graded):
                state = self._run(self.core, self.adapter(torch.cat([state, e], dim=-1)))
        return self.head(self._run(self.coda, state))

    @staticmethod
    def _run(block: nn.Module, x: Any) -> Any:
        out = block(x)
        return out[0] if isinstance(out, tuple) else out


def recurrent_depth() -> Case:
    def loss(model: Any, batch: dict[str, Any]) -> Any:
        logits = model(batch["input_ids"], batch["state"])
        return nn.functional.cross_entropy(logits.transpose(1, 2), batch["input_ids"], reduction="none").mean(dim=1)

    batch = {"input_ids": tokens()["input_ids"], "state": torch.randn(3, T, D, dtype=torch.float64)}
    return Case(ready(RecurrentDepth()), loss, batch, sdi.Loop(body=["adapter", "core"], step="adapter"), tau=5)


def lora(dora: bool = False) -> Case:
    from peft import LoraConfig, get_peft_model

    base = LoopedBlock(gpt2_block(), lambda net, x: net.block(x))
    config = LoraConfig(r=2, target_modules=["c_attn", "c_fc"], use_dora=dora, fan_in_fan_out=True, lora_dropout=0.0)
    net = get_peft_model(ready(base), config)
    for name, p in net.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(p, std=0.2)
    return Case(ready(net), logits_loss, tokens(), tau=4)


def dora() -> Case:
    return lora(dora=True)


CASES = (
    albert, perceiver, hrm_text, zamba2, llama, gpt2, llama_cached, llama_layers, mamba, mixtral,
    x_transformers_tied, x_transformers_looped, hrm_pytorch, tiny_recursive, perceiver_pytorch, recurrent_depth,
    lora, dora,
)  # fmt: skip
