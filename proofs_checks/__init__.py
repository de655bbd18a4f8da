"""The paper's statements as checks that can fail: one file each, in the order of the paper; then those on our sketches.

`sdi verify` runs them; `sdi verify --mutants` shows that each check rejects the wrong claims it should.
"""

if __name__ != "sdi.proofs_checks":
    raise ImportError(
        "this folder is installed as sdi.proofs_checks: write `import sdi.proofs_checks`, not `import proofs_checks`"
    )

import importlib

from .statement import Report, Statement, Verdict, load_statements, run, statement, statements

ORDER = (
    "total_derivative",
    "outer_products",
    "steps_after_readout",
    "truncation",
    "influence_sums",
    "influence_backends",
    "influence_weights",
    "summaries",
    "sketched_conservation",
    "fast_agrees",
    "kernels_agree",
    "exact_scores",
    "storage_and_work",
    "drawn_sketches",
    "count_sketch_unbiased",
    "count_sketch_variance",
    "count_sketch_bound",
    "tensor_sketch_fft",
    "tensor_sketch_linear",
    "tensor_sketch_unbiased",
    "tensor_sketch_variance",
    "tensor_sketch_bound",
    "older_bound",
    "tightness",
    "smallest_m",
    "independence_suffices",
    "independence_drawn",
    "independence_needed",
    "concatenation",
    "checkpoints",
    "standard_error",
    "gaussian",
    "rademacher",
    "sparse",
    "kronecker",
    "kronecker_bound",
    "hadamard",
    "mask",
    "kept",
    "mixed_maps",
    "drawn_variants",
)
for _name in ORDER:  # statements register when imported: this is the order of the paper
    importlib.import_module(f".{_name}", __name__)

from .errata import errata  # noqa: E402  (last: it draws on the others)
from .erratum import Erratum  # noqa: E402

__all__ = [
    "Erratum",
    "Report",
    "Statement",
    "Verdict",
    "errata",
    "load_statements",
    "run",
    "statement",
    "statements",
]
