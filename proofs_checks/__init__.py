"""The paper's statements as checks that can fail: one file each, in the order of the paper; then those on our sketches.

`sdi verify` runs them; `sdi verify --mutants` shows that each check rejects the wrong claims it should.
"""

if __name__ != "sdi.proofs_checks":
    raise ImportError(
        "this folder is installed as sdi.proofs_checks: write `import sdi.proofs_checks`, not `import proofs_checks`"
    )

import importlib

from .machinery.statement import Report, Statement, Verdict, load_statements, run, statement, statements

ORDER = (
    "gradients.total_derivative",
    "gradients.outer_products",
    "gradients.steps_after_readout",
    "gradients.truncation",
    "influence.sums",
    "influence.backends",
    "influence.weights",
    "influence.summaries",
    "influence.masses",
    "influence.asymmetry",
    "backends.sketched_conservation",
    "backends.fast_agrees",
    "backends.kernels_agree",
    "influence.exact_scores",
    "influence.through_training",
    "influence.preconditioned",
    "backends.storage",
    "backends.work",
    "backends.drawn_sketches",
    "count_sketch.unbiased",
    "count_sketch.variance",
    "count_sketch.bound",
    "tensor_sketch.fft",
    "tensor_sketch.linear",
    "tensor_sketch.unbiased",
    "tensor_sketch.cases",
    "tensor_sketch.variance",
    "tensor_sketch.bound",
    "count_sketch.older_bound",
    "tensor_sketch.tightness",
    "tensor_sketch.smallest_m",
    "independence.suffices",
    "independence.drawn",
    "independence.fair",
    "independence.names_and_seeds",
    "independence.needed",
    "error_bars.concatenation",
    "error_bars.checkpoints",
    "error_bars.standard_error",
    "error_bars.estimated",
    "error_bars.rounding",
    "error_bars.int8",
    "error_bars.half_bound",
    "error_bars.sample_variance",
    "variants.gaussian",
    "variants.rademacher",
    "variants.sparse",
    "variants.kronecker",
    "variants.kronecker_bound",
    "variants.hadamard",
    "variants.mask",
    "variants.kept_whole",
    "variants.mixed_maps",
    "variants.drawn_variants",
)
for _name in ORDER:  # statements register when imported: this is the order of the paper
    importlib.import_module(f".{_name}", __name__)

from .errata.errata_list import all_errata  # noqa: E402  (last: it draws on the others)
from .errata.erratum import Erratum  # noqa: E402

__all__ = [
    "Erratum",
    "Report",
    "Statement",
    "Verdict",
    "all_errata",
    "load_statements",
    "run",
    "statement",
    "statements",
]
