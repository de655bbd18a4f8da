"""The paper's statements as checks that can fail: one file each, in the order of the paper.

`sdi verify` runs them; `sdi verify --mutants` shows that each check rejects the wrong claims it should.
"""

if __name__ != "sdi.proofs_checks":
    raise ImportError(
        "this folder is installed as sdi.proofs_checks: write `import sdi.proofs_checks`, not `import proofs_checks`"
    )

from .statement import Report, Statement, Verdict, load_statements, run, statement, statements

__all__ = ["Report", "Statement", "Verdict", "load_statements", "run", "statement", "statements"]
