"""sdi-bench: time, memory, fidelity, and the authors' release beside ours, every figure with the bar it must meet."""

if __name__ != "sdi.bench":
    raise ImportError("this folder is installed as sdi.bench: write `import sdi.bench`, not `import bench`")
