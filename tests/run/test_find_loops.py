"""find_loops: what is called more than once, in what order, and the Loop that describes it; no call outside unsaid."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from cli_cases import call, call_json, made, project
from torch import nn

import sdi

__all__ = ["made", "project"]


class Net(nn.Module):
    """A model made of a dict of modules and a function that is its forward."""

    def __init__(self, run: Any, **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.run = run

    def forward(self, x: Any) -> Any:
        return self.run(self, x)


def linear(d: int = 4) -> nn.Linear:
    return nn.Linear(d, d)


def loss(model: Any, batch: Any) -> Any:
    return model(batch["x"]).square().sum(-1)


def found(model: nn.Module, loss: Any = loss) -> sdi.FoundLoops:
    return sdi.find_loops(model, loss, {"x": torch.randn(3, 4)})


def blocks(model: Any, x: Any) -> Any:
    x = model.read_in(x)
    for _ in range(6):
        x = model.inject(x)
        for block in model.core:
            x = block(x)
    return model.head(x)


def parts() -> dict[str, nn.Module]:
    return {
        "read_in": linear(),
        "inject": linear(),
        "core": nn.ModuleList([nn.Sequential(linear(), nn.ReLU()), linear()]),
        "head": linear(),
    }


def test_an_injection_and_blocks_are_one_loop_that_begins_with_the_injection() -> None:
    said = found(Net(blocks, **parts()))
    assert said.picture == "read_in → (inject → core.0 → core.1) × 6 → head"
    (best,) = said
    assert best.line == 'sdi.Loop(body=["inject", "core.0", "core.1"], step="inject")'
    assert (best.tau, best.numbers, best.remarks) == (6, 60, ())
    assert best.calls == {"inject": 6, "core.0": 6, "core.1": 6}
    assert "1. 6 steps, 60 numbers in the body" in str(said)
    assert eval(best.line) == best.loop  # what is to be pasted is what was proposed


def test_a_proposal_is_attributed_as_it_is(tmp_path: Any) -> None:
    model = Net(blocks, **parts()).double()
    torch.save(model.state_dict(), tmp_path / "a.pt")
    batches = [{"id": [f"{k}" for k in range(3)], "x": torch.randn(3, 4, dtype=torch.float64)}]
    loop = sdi.find_loops(model, loss, {"x": batches[0]["x"]})[0].loop
    result = sdi.attribute(
        model, loss=loss, loop=loop, checkpoints=tmp_path / "a.pt", eta=[1.0], train=batches, query=batches, m=None
    )
    assert result.sizes["step"] == 6
    assert not result.outside.values.any()


def test_blocks_that_are_used_again_before_and_after_are_said_to_lie_outside() -> None:
    def run(model: Any, x: Any) -> Any:
        x = model.core[1](model.core[0](x))
        for _ in range(5):
            x = model.core[1](model.core[0](model.inject(x)))
        return model.core[1](model.core[0](model.coda(x)))

    said = found(Net(run, **parts(), coda=linear()))
    best = said[0]
    assert best.loop == sdi.Loop(body=["core.0", "core.1", "inject"], step="inject", end="coda")
    assert best.tau == 5
    assert sum("come before the first step: they are in no step" in remark for remark in best.remarks) == 2
    assert any(
        "which 'coda' closes, calls go to result.outside: 1 of 'core.0', 1 of 'core.1'" in r for r in best.remarks
    )


def test_a_coda_that_no_module_announces_is_said() -> None:
    def run(model: Any, x: Any) -> Any:
        for _ in range(4):
            x = model.core[0](model.inject(x))
        return model.core[0](x)

    best = found(Net(run, **parts()))[0]
    assert (best.loop.step, best.loop.end, best.tau) == ("inject", None, 4)
    assert any("the last step has more calls than the others (1 of 'core.0')" in remark for remark in best.remarks)


@pytest.mark.parametrize("first", ["H", "L"])
def test_cycles_within_cycles_are_found_on_either_axis(first: str) -> None:
    def run(model: Any, x: Any) -> Any:
        for _ in range(2):
            x = model.H(x) if first == "H" else x
            for _ in range(3):
                x = model.L(x)
            x = x if first == "H" else model.H(x)
        return x

    said = found(Net(run, H=linear(), L=linear()))
    if first == "L":
        assert said.picture == "(L × 3 → H) × 2"
        assert (said[0].line, said[0].tau) == ('sdi.Loop(body=["L", "H"], step="L")', 6)
        assert said[0].remarks == ("'H' is called in 2 of 6 steps: 3, 6; with cycle='H', inner=3, each call begins a "
                                   "cycle of an outer loop",)  # fmt: skip
    else:
        assert [one.line for one in said] == ['sdi.Loop(body=["H", "L"], step="H")', 'sdi.Loop(body=["L"], step="L")']
        assert [one.tau for one in said] == [2, 6]
        words = "with cycle='H', inner=3, each call begins a cycle of an outer loop"
        assert said[1].remarks == (f"not in this body: 'H' (2 calls); {words}",)


def test_a_loop_within_a_module_that_is_called_again_is_nested() -> None:
    class Cycle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.read, self.cell = linear(), linear()

        def forward(self, x: Any) -> Any:
            x = self.read(x)
            for _ in range(3):
                x = self.cell(x)
            return x

    def run(model: Any, x: Any) -> Any:
        return model.cycle(model.cycle(x))

    said = found(Net(run, cycle=Cycle()))
    assert [(one.loop.step, one.tau) for one in said] == [("cycle", 2), ("cycle.cell", 6)]
    assert said[1].remarks[0].startswith("nested: 3 steps within each of the 2 calls of 'cycle'")


def test_distinct_modules_with_the_same_parameters_are_one_unit() -> None:
    def run(model: Any, x: Any) -> Any:
        for own, shared in zip(model.own, model.shared, strict=True):
            x = shared(own(x))
        return x

    model = Net(run, own=nn.ModuleList(linear() for _ in range(3)), shared=nn.ModuleList(linear() for _ in range(3)))
    for twin in (model.shared[1], model.shared[2]):
        twin.weight, twin.bias = model.shared[0].weight, model.shared[0].bias
    (best,) = found(model)
    assert best.line == 'sdi.Loop(body=["shared.0"], step=["shared.0", "shared.1", "shared.2"])'
    assert (best.tau, best.numbers) == (3, 20)
    assert any("3 modules share the parameters of 'shared.0'" in remark for remark in best.remarks)


def test_calls_in_every_step_but_some_are_no_cycles() -> None:
    def run(model: Any, x: Any) -> Any:
        for _ in range(4):
            x = model.inject(model.core[0](x))
        return model.core[0](model.core[0](x))

    said = found(Net(run, **parts()))
    assert any("'inject' is called in 4 of 6 steps: 1, 2, 3, 4" in remark for one in said for remark in one.remarks)
    assert not any("cycle=" in remark for one in said for remark in one.remarks)


def test_of_a_module_that_calls_itself_the_loop_is_what_it_calls() -> None:
    class Recursive(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = linear()

        def forward(self, x: Any, more: int = 3) -> Any:
            x = self.cell(x)
            return self(x, more - 1) if more else x

    said = found(Net(lambda m, x: m.head(m.r(x)), r=Recursive(), head=linear()))
    assert said.picture == "r.cell × 4 → head"
    assert [(one.line, one.tau) for one in said] == [('sdi.Loop(body=["r.cell"], step="r.cell")', 4)]


def test_a_weight_that_distinct_modules_share_is_a_loop_of_its_own(tmp_path: Any) -> None:
    def run(model: Any, x: Any) -> Any:
        for layer in model.layers:
            x = torch.tanh(layer(x))
        return x

    model = Net(run, layers=nn.ModuleList(linear() for _ in range(3))).double()
    weights = [layer.weight for layer in model.layers]
    for layer in model.layers:
        layer.weight = weights[0]
    batch = {"x": torch.randn(2, 4, dtype=torch.float64)}
    (best,) = sdi.find_loops(model, loss, batch)
    assert best.line == 'sdi.Loop(body=["layers.0.weight"], step=["layers.0", "layers.1", "layers.2"])'
    assert (best.tau, best.numbers, best.calls) == (3, 16, {"layers.0.weight": 3})
    torch.save(model.state_dict(), tmp_path / "a.pt")
    rows = [{"id": ["a", "b"], **batch}]
    more: Any = {"checkpoints": tmp_path / "a.pt", "eta": [1.0], "train": rows, "query": rows, "m": None}
    result = sdi.attribute(model, loss=loss, loop=eval(best.line), dtype="float64", **more)
    copies = [nn.Parameter(weights[0].detach().clone()) for _ in range(3)]
    for layer, copy in zip(model.layers, copies, strict=True):
        layer.weight = copy
    phi = torch.stack([torch.stack(torch.autograd.grad(one, copies, retain_graph=True)) for one in loss(model, batch)])
    wanted = torch.einsum("iab,jtab->ijt", phi.sum(dim=1), phi)
    torch.testing.assert_close(torch.as_tensor(result.sdi.values), wanted, rtol=1e-10, atol=1e-12)


def test_parameters_that_the_model_itself_uses_again_are_told_how_to_become_steps() -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(4, 4))

        def forward(self, x: Any) -> Any:
            return x @ self.w @ self.w

    said = found(Bare())
    assert len(said) == 0
    assert said.notes[0].startswith("parameter 'w' (16 numbers) is used 2 times in the model itself")
    assert "let its state pass through an nn.Identity" in said.notes[1]


def test_rounds_that_the_loss_holds_are_found() -> None:
    def rounds(model: Any, batch: Any) -> Any:
        x = batch["x"]
        for _ in range(3):
            x = model(x)
        return x.sum(-1)

    said = found(Net(blocks, **parts()), rounds)
    assert said[0].loop.calls == "restart"
    assert any("calls the model 3 times" in note and "to 18 steps" in note for note in said.notes)
    plain = found(Net(lambda model, x: model.head(model.read_in(x)), read_in=linear(), head=linear()), rounds)
    assert plain[0].line == 'sdi.Loop(body=["read_in", "head"], step="read_in", calls="continue")'
    assert (plain[0].tau, plain.picture) == (3, "(read_in → head) × 3")
    assert any("the loop is held by the loss" in note for note in plain.notes)


def test_a_model_without_reuse_is_told_so() -> None:
    said = found(Net(lambda model, x: model.head(model.read_in(x).relu()), read_in=linear(), head=linear()))
    assert len(said) == 0
    assert said.notes[0] == "no module with parameters is called more than once: this model has no loop"
    assert said.notes[1] == 'as a loop of one step: sdi.Loop(body=["read_in", "head"], step="read_in")'
    assert len(said.notes) == 2
    deep = found(Net(lambda model, x: model.layers(x), layers=nn.Sequential(linear(), nn.ReLU(), linear())))
    assert deep.notes[2] == (
        'with its layers as steps: sdi.Loop(body=["layers.0", "layers.2"], step=["layers.0", "layers.2"])'
    )


def test_one_activation_for_all_layers_is_no_loop() -> None:
    net = Net(lambda m, x: m.act(m.b(m.act(m.a(x)))), a=linear(), b=linear(), act=nn.ReLU())
    assert len(found(net)) == 0


def test_parameters_that_are_used_by_name_are_named() -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.core, self.gate = linear(), nn.Parameter(torch.ones(4))
            self.quiet = linear()

        def forward(self, x: Any) -> Any:
            for _ in range(3):
                x = self.core(x) * self.gate
                x = self.quiet.forward(x)
            return x

    said = found(Bare())
    assert said[0].calls == {"core": 3}
    assert any("'gate' (4 numbers) is used 3 times in the model itself" in note for note in said.notes)
    assert any("'quiet.weight'" in note and "by .forward(...), which no hook sees" in note for note in said.notes)


def test_the_model_leaves_as_it_came() -> None:
    model = Net(blocks, **parts(), norm=nn.BatchNorm1d(4))
    before = {name: (p.requires_grad, p.clone()) for name, p in model.named_parameters()}
    state = torch.get_rng_state()
    sdi.find_loops(model, lambda m, b: m.norm(torch.rand(3, 4) + m(b["x"])).sum(-1), {"x": torch.ones(3, 4)})
    assert torch.equal(torch.get_rng_state(), state)
    assert model.norm.num_batches_tracked == 0
    for name, p in model.named_parameters():
        assert p.requires_grad == before[name][0]
        assert torch.equal(p, before[name][1])
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    with pytest.raises(ZeroDivisionError):
        sdi.find_loops(model, lambda m, b: 1 / 0, {})
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    with pytest.raises(TypeError, match=r"^model must be a torch.nn.Module, got 3$"):
        sdi.find_loops(3, loss, {})
    with pytest.raises(TypeError, match=r"^loss must be a function of the model and a batch, got 3$"):
        sdi.find_loops(model, 3, {})


@pytest.mark.slow
def test_the_command_says_the_same_and_the_lines_for_a_config(project: Any) -> None:
    for source in ("run.toml", "task.py"):
        said = call_json("loops", project / source)
        assert said["picture"] == "read_in → core × 4 → head"
        assert said["loops"][0]["line"] == 'sdi.Loop(body=["core"], step="core")'
        assert {"body": ["core"], "step": "core", "tau": 4}.items() <= said["loops"][0].items()
    (project / "bare.toml").write_text('script = "task.py"\n')
    shown = call("loops", project / "bare.toml").stdout
    assert shown.startswith("calls: read_in → core × 4 → head\n\n1. 4 steps, ")
    assert shown.endswith('\n\nthe first in a config:\nbody = ["core"]\nstep = "core"\n')
    (project / "empty.py").write_text((project / "task.py").read_text() + "\ndef query():\n    return []\n")
    assert "must give at least one batch, got none" in call("loops", project / "empty.py", code=2).stderr
    (project / "none.toml").write_text("m = 3\n")
    assert "lacks script" in call("loops", project / "none.toml", code=2).stderr
