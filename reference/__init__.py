"""Not built yet."""

if __name__ != "sdi.reference":
    raise ImportError("this folder is installed as sdi.reference: write `import sdi.reference`, not `import reference`")
