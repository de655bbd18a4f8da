"""python docs/make/peer_cells.py FOLDER: which calls of a module other libraries count, where it is called four times.

FOLDER gets an environment with the peers' releases (2 GB), unless it holds one. Each peer then runs in a process of its
own, on a small looped model whose body is one linear layer; what it gives for pairs of examples is compared with the
inner products of autograd's gradients. Writes docs/results/comparison.json, which docs/comparison.md quotes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RELEASES = {
    "ours": "",  # this checkout, in the environment that runs the script
    "authors": "step-decomposed-influence==0.1.1",
    "bergson": "bergson==2.5.1",
    "kronfluence": "kronfluence==1.0.1",
    "dattri": "dattri==0.3.0",
    "captum": "captum==0.9.0",
}
STEPS, EXAMPLES, TOKENS, WIDTH = 4, 5, 3, 6
RIGHT = 1e-4  # relative to the largest inner product


def made(steps: int) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Torch, a model that calls its body so often, a batch, and inner products (train, query) of autograd's gradients.

    The products are of the gradients through all calls of the body, or through the last call alone.
    """
    import torch
    from torch import nn

    class Looped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.core, self.head = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, 1, bias=False)

        @property
        def device(self) -> Any:
            return self.head.weight.device

        def forward(self, x: Any, weights: Any = None) -> Any:
            s = torch.zeros_like(x)
            for k in range(steps):
                s = torch.tanh(self.core(s + x) if weights is None else (s + x) @ weights[k].T)
            return self.head(s).mean(dim=1)

    torch.manual_seed(0)
    model, x, y = Looped(), torch.randn(EXAMPLES, TOKENS, WIDTH), torch.randn(EXAMPLES, 1)
    rows = []
    for one, target in zip(x, y, strict=True):  # a weight of its own for every call
        weights = [model.core.weight.detach().clone().requires_grad_() for _ in range(steps)]
        loss = (model(one[None], weights) - target).square().sum()
        rows.append(torch.stack(torch.autograd.grad(loss, weights)).flatten(1))
    phi = torch.stack(rows)
    whole, last = phi.sum(dim=1), phi[:, -1]
    products = {
        "all calls": whole @ whole.T,
        "the training example's last call only": last @ whole.T,
        "both sides' last call only": last @ last.T,
    }
    return torch, model, (x, y), products


def losses(model: Any, x: Any, y: Any) -> Any:
    return (model(x) - y).square().sum(dim=1)


def ours(steps: int) -> dict[str, Callable[[], Any]]:
    torch, model, (x, y), _ = made(steps)

    def resolved() -> Any:
        import sdi

        loop, shapes = sdi.Loop(body="core", step="core"), {"core.weight": (WIDTH, WIDTH)}
        sketch = sdi.SketchMap.draw(shapes, m=8192)
        fast = sdi.backend("fast")
        found = fast.featurize(
            model, lambda m, b: losses(m, b["x"], b["y"]), {"x": x, "y": y}, loop=loop, sketch=sketch
        )
        return torch.from_numpy(sdi.scores.sdi(found.g, found))

    return {"featurize": resolved}


def authors(steps: int) -> dict[str, Callable[[], Any]]:
    torch, model, (x, y), _ = made(steps)

    def resolved() -> Any:
        from sdi import ProjectedTracInSDI  # the authors' package has our name

        estimator = ProjectedTracInSDI(
            model=model, target_modules=[model.core], projection_size=8192, loss_reduction="sum"
        )
        found = estimator.featurize_loader(loader=[{"x": x, "y": y}], loss_fn=lambda m, b: losses(m, b["x"], b["y"]))
        phi = torch.cat(list(found.phi.values()), dim=-1)
        return torch.einsum("id,jtd->ijt", phi.sum(dim=1), phi)

    return {"ProjectedTracInSDI": resolved}


def bergson(steps: int) -> dict[str, Callable[[], Any]]:
    torch, model, (x, y), _ = made(steps)

    def collected() -> Any:
        from bergson.collector.gradient_collectors import StreamingGradientCollector

        collector = StreamingGradientCollector(model=model, target_modules={"core"}, dtype=torch.float32)
        with collector.with_batch(None):
            losses(model, x, y).sum().backward()
        g = collector.mod_grads["core"].flatten(1).float()
        return g @ g.T

    return {"gradient collector": collected}


def kronfluence(steps: int) -> dict[str, Callable[[], Any]]:
    torch, _, (x, y), _ = made(steps)
    from kronfluence import Analyzer, FactorArguments, Task, prepare_model

    class Squares(Task):
        def compute_train_loss(self, batch: Any, model: Any, sample: bool = False) -> Any:
            return losses(model, *batch).sum()

        def compute_measurement(self, batch: Any, model: Any) -> Any:
            return losses(model, *batch).sum()

        def get_influence_tracked_modules(self) -> list[str]:
            return ["core"]

    def pairs(shared: bool) -> Any:
        data = torch.utils.data.TensorDataset(x, y)
        task = Squares()
        with tempfile.TemporaryDirectory() as folder:
            analyzer = Analyzer(
                "a", prepare_model(made(steps)[1], task), task, cpu=True, output_dir=folder, disable_tqdm=True
            )
            asked = FactorArguments(strategy="identity", has_shared_parameters=shared)
            analyzer.fit_all_factors("f", data, factor_args=asked, per_device_batch_size=EXAMPLES)
            analyzer.compute_pairwise_scores("s", "f", data, data, EXAMPLES, EXAMPLES)
            return analyzer.load_pairwise_scores("s")["all_modules"].T

    return {
        "has_shared_parameters=False, its default": lambda: pairs(False),
        "has_shared_parameters=True": lambda: pairs(True),
    }


def dattri(steps: int) -> dict[str, Callable[[], Any]]:
    torch, model, (x, y), _ = made(steps)
    from dattri.algorithm import TracInAttributor
    from dattri.task import AttributionTask

    def loader() -> Any:
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=EXAMPLES)

    def one(parameters: Any, data: Any) -> Any:
        yhat = torch.func.functional_call(model, parameters, (data[0][None],))
        return (yhat[0] - data[1]).square().sum()

    def tracin() -> Any:
        task = AttributionTask(loss_func=one, model=model, checkpoints=[model.state_dict()])
        plain = {"proj_type": "identity"}
        found = TracInAttributor(task, torch.ones(1), False, projector_kwargs=plain, layer_name=["core.weight"])
        return found.attribute(loader(), loader())

    return {"TracInAttributor": tracin}


def captum(steps: int) -> dict[str, Callable[[], Any]]:
    torch, model, (x, y), _ = made(steps)
    from captum.influence import TracInCP

    def pairs(by_hooks: bool) -> Any:
        with tempfile.NamedTemporaryFile(suffix=".pt") as file:
            torch.save(model.state_dict(), file.name)

            def load(model: Any, path: str) -> float:
                model.load_state_dict(torch.load(path))
                return 1.0

            found = TracInCP(
                model, torch.utils.data.TensorDataset(x, y), [file.name], load, layers=["core"],
                loss_fn=torch.nn.MSELoss(reduction="sum" if by_hooks else "none"), batch_size=EXAMPLES,
                sample_wise_grads_per_batch=by_hooks,
            )  # fmt: skip
            return found.influence((x, y)).T

    return {"TracInCP": lambda: pairs(False), "TracInCP(sample_wise_grads_per_batch=True)": lambda: pairs(True)}


def tried(by: Callable[[], Any], steps: int) -> dict[str, Any]:
    """Which calls of the body an answer counts, how far it is off, and its shape; or what was raised."""
    products = made(steps)[3]
    try:
        found = by().detach()
    except Exception as error:
        return {"counts": None, "said": f"{type(error).__name__}: {error}".splitlines()[0][:120]}
    summed = found.sum(dim=-1) if found.ndim == 3 else found
    off = {what: float((summed - each).abs().max() / each.abs().max()) for what, each in products.items()}
    nearest = min(off, key=lambda what: off[what])
    counts = nearest if off[nearest] <= RIGHT else "something else"
    return {"counts": counts, "off": float(f"{off[nearest]:.1g}"), "shape": " x ".join(map(str, found.shape))}


def tried_both(peer: str) -> dict[str, Any]:
    """Each way that a peer offers, on a body that is called once and on one that is called in each of STEPS."""
    once, often = (globals()[peer](steps) for steps in (1, STEPS))
    return {way: {"once": tried(once[way], 1), "often": tried(often[way], STEPS)} for way in once}


def table(found: dict[str, Any]) -> str:
    """What was found, as the table of docs/comparison.md."""
    lines = [f"| release | by | called once | called in {STEPS} steps | its answer |", "|---|---|---|---|---|"]
    for peer in found["peers"].values():
        for way, tries in peer["ways"].items():
            once, often = (tries[key]["counts"] or f"`{tries[key]['said']}`" for key in ("once", "often"))
            lines.append(f"| {peer['release']} | {way} | {once} | {often} | {tries['often'].get('shape', 'none')} |")
    return "\n".join(lines) + "\n"


def main(folder: Path) -> None:
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pins = ["-c", str(ROOT / "constraints.txt")]
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", *pins, "torch", *filter(None, RELEASES.values())], check=True)
        subprocess.run(
            [*pip, "uninstall", "--yes", "torchvision", "torchaudio"], check=True
        )  # of another torch, unused
    found = {}
    for peer, release in RELEASES.items():
        with tempfile.TemporaryDirectory() as empty:  # where no folder of ours is called sdi
            here = python if release else sys.executable
            done = subprocess.run([here, __file__, "--peer", peer], cwd=empty, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{peer}: {done.stderr}")
        found[peer] = {"release": release or "this checkout", "ways": json.loads(done.stdout.splitlines()[-1])}
    record = {"settings": {"steps": STEPS, "examples": EXAMPLES, "off by at most": RIGHT}, "peers": found}
    (ROOT / "docs" / "results" / "comparison.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(table(record))


if __name__ == "__main__":
    if sys.argv[1] == "--peer":
        print(json.dumps(tried_both(sys.argv[2])))
    else:
        main(Path(sys.argv[1]).resolve())
