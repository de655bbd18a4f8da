"""sdi-bench: fidelity, time, memory, growth and peers, every figure beside the bar it must meet."""

if __name__ != "sdi.bench":
    raise ImportError("this folder is installed as sdi.bench: write `import sdi.bench`, not `import bench`")
