"""Not built yet."""

if __name__ != "sdi.fast":
    raise ImportError("this folder is installed as sdi.fast: write `import sdi.fast`, not `import fast`")
