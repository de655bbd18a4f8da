"""Mutation testing of the modules that hold mathematics: `make mutants`. It needs the extra `mutants`.

mutmut writes the mutants (its operators, on libcst trees); the running is done here, because mutmut copies the tree and
tells modules by their path, while `reference/` and `fast/` are imported as `sdi.reference` and `sdi.fast`: it finds no
test for any mutant. C kernels have mutants written by hand (`kernel_mutants.py`).
"""
