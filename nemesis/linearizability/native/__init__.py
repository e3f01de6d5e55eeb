"""The register search in C, as source; ``register_search.so`` stands beside it where the installation had a compiler.

Owns nothing in Python: ``nemesis.linearizability.accelerator`` loads the library, ``hatch_build.py`` compiles it.
"""
