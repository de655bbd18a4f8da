"""The one compiled part, optional: without gcc, or not on x86-64, PyTorch does its work (fast/native.py)."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "sdi.fast._tensor_sketch",
            ["fast/tensor_sketch.c"],
            depends=["fast/tensor_sketch.h"],
            extra_compile_args=["-O3", "-std=gnu11", "-fopenmp", "-Wno-psabi"],
            extra_link_args=["-fopenmp", "-lm"],
            optional=True,
        )
    ]
)
