"""Where packages are on disk, and the one compiled part.

The rooms beside `sdi/` are installed within it: `fast/` as `sdi.fast`, and so on. The compiled part is optional:
without gcc or clang, or on other CPUs than x86-64 and aarch64, PyTorch does its work (fast/sketching/compiled.py).
"""

from typing import Any

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

ROOMS = ("reference", "fast", "proofs_checks", "bench", "experiments")


class BuildKernels(build_ext):  # type: ignore[misc]
    """With OpenMP where the compiler has it (Apple's clang does not), else for one thread."""

    def build_extension(self, ext: Any) -> None:
        try:
            super().build_extension(ext)
        except (CompileError, LinkError):
            for flags in (ext.extra_compile_args, ext.extra_link_args):
                flags.remove("-fopenmp")
            super().build_extension(ext)


setup(
    cmdclass={"build_ext": BuildKernels},
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
