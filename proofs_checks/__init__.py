"""Not built yet."""

if __name__ != "sdi.proofs_checks":
    raise ImportError(
        "this folder is installed as sdi.proofs_checks: write `import sdi.proofs_checks`, not `import proofs_checks`"
    )
