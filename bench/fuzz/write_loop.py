"""write_loop: the steps of a drawn model as source text, and the layouts of the state from step to step."""

from __future__ import annotations

from .description import Description
from .mixing import condition

PACK = {  # how the state is packed before the loop, and unpacked in a step and after
    "flat": ("h.flatten(0, 1)", "h.unflatten(0, (len(length), -1))"),
    "time first": ("h.transpose(0, 1)", "h.transpose(0, 1)"),
    "streams": ("torch.stack([h * c for c in SCALES])", "h.mean(0)"),
    "stacked streams": ("torch.cat([h * c for c in SCALES])", "h.unflatten(0, (K, -1)).mean(0)"),
}


def write_loop(one: Description) -> list[str]:
    """The lines of a model's forward that run the steps."""
    count, inside = "TAU", ["self.at(self.done + t)" if "two rounds" in one.extras else "self.at(t)"]
    if "tau" in one.extras:
        count = "int(batch['tau'].max())"
    if one.mixing == "steps by size":
        count += f" + int({condition(one.when, 'h')})"
    if one.mixing == "until all agree":
        count += " + 2"
        inside = ["old = h", *inside]
    before, start = [], "h"
    if "halting" in one.extras:
        before = ["on = torch.ones(len(h), dtype=torch.bool)"]
        inside = ["if not on.any():", "    break", *inside]
        start = "h[on]"
    if "row first" in one.extras:
        inside.append("row = self.gates[t]")
    if one.step == "tick":
        inside.append("self.tick(h)")
    if one.step == "norm":
        start = f"self.norm({start})"
    if one.step == "join":
        start = f"self.join(torch.cat([{start}, {'start[on]' if 'halting' in one.extras else 'start'}], -1))"
    elif "input again" in one.extras:
        start += " + start[on]" if "halting" in one.extras else " + start"
    length = (", length[on]" if "halting" in one.extras else ", length") if one.tokens else ""
    if "checkpoint" in one.extras or "reentrant checkpoint" in one.extras:
        new = f"checkpoint(self.core, {start}{length}, use_reentrant={'reentrant checkpoint' in one.extras})"
    elif "keywords" in one.extras:
        new = f"self.core(h={start}{length.replace('length', 'length=length', 1)})"
    else:
        new = f"self.core({start}{length})"
    if "a dict comes back" in one.extras:
        new += "['h']"
    if "halting" in one.extras:
        new = f"h.index_put((on,), {new})"
    if "tau" in one.extras:
        new = f"torch.where((t < batch['tau']).view(-1, *[1] * (h.dim() - 1)), {new}, h)"
    if "no_grad" in one.extras:
        inside += ["with torch.set_grad_enabled(torch.is_grad_enabled() and t > 0):", f"    h = {new}"]
    else:
        inside.append(f"h = {new}")
    if "twice in a step" in one.extras:
        inside.append(inside[-1])
    if "gate" in one.extras:
        inside.append("h = h * torch.sigmoid(self.gate)")
    if "row first" in one.extras:
        inside.append("h = torch.sigmoid(row) * h")
    if "step embedding" in one.extras:
        inside.append("h = h + self.embedding[t]")
    if "halting" in one.extras:
        inside.append("on = on & (h.detach().flatten(1).mean(1) < 0.1)")
    if "detach" in one.extras:
        inside += ["if t == 0:", "    h = h.detach()"]
    if "hook" in one.extras:
        inside += ["if h.requires_grad:", "    h.register_hook(lambda g: 0.5 * g)"]
    if "deep" in one.extras:
        inside.append(f"outs.append({PACK[one.carry][1] if one.carry in PACK else 'h'})")
    if one.mixing == "until all agree":
        inside += ["if float((h - old).detach().abs().max()) < 0.3:", "    break"]
    return [*before, f"for t in range({count}):", *(f"    {line}" for line in inside)]
