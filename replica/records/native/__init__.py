"""The walk over a batch's records in C, as source; ``walk.so`` stands beside it where the installation had a compiler.

Owns nothing in Python: ``replica.records.walking`` loads the library, ``hatch_build.py`` compiles it.
"""
