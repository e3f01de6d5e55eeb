"""``make release``: from a commit to the files that users install, each of them tried, listed and signed.

The way through: ``source`` (the commit, and nothing that is not in it) -> ``build`` (sdist and wheels, each twice) ->
``archives``, ``contents`` (what must be in them, and nothing else) -> ``interpreters`` (the Pythons of this machine) ->
``installing`` (an empty environment for each file and Python; ``tried`` is what runs in it) -> ``sbom`` (what such an
environment holds) -> ``images`` -> ``sums`` (checksums and their signature) -> ``__main__`` (all of it in order).
``commands`` starts other programs for all of them.

What cannot be done on this machine is left out and said, and never silently: ``left out: ...``.
"""
