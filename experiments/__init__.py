"""The paper's applications, each whole: train, attribute, analyse, report. One folder each."""

if __name__ != "sdi.experiments":
    raise ImportError(
        "this folder is installed as sdi.experiments: write `import sdi.experiments`, not `import experiments`"
    )
