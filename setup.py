"""Where packages are on disk, and the one compiled part.

The rooms beside `sdi/` are installed within it: `fast/` as `sdi.fast`, and so on. The compiled part is optional:
without gcc, or not on x86-64, PyTorch does its work (fast/sketching/compiled.py).
"""

from setuptools import Extension, find_packages, setup

ROOMS = ("reference", "fast", "proofs_checks", "bench", "experiments")

setup(
    packages=[
        "sdi",
        *(f"sdi.{package}" for package in find_packages("sdi")),
        *(f"sdi.{package}" for room in ROOMS for package in find_packages(".", include=[room, f"{room}.*"])),
    ],
    package_dir={"sdi": "sdi", **{f"sdi.{room}": room for room in ROOMS}},
    ext_modules=[
        Extension(
            "sdi.fast.sketching._tensor_sketch",
            ["fast/sketching/tensor_sketch.c"],
            depends=["fast/sketching/tensor_sketch.h"],
            extra_compile_args=["-O3", "-std=gnu11", "-fopenmp", "-Wno-psabi"],
            extra_link_args=["-fopenmp", "-lm"],
            optional=True,
        )
    ],
)
