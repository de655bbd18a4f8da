"""Not built yet."""

if __name__ != "sdi.bench":
    raise ImportError("this folder is installed as sdi.bench: write `import sdi.bench`, not `import bench`")
