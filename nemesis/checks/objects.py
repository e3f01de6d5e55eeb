"""The promises of objects, whose operations take effect one after the other.

Owns the declarations of **nonlinearizable** and **wrong-order**. ``nemesis.pipeline.run_objects`` judges objects,
with the kernels of ``nemesis.linearizability``. What is pending in a prefix has an unknown outcome there, so that the
whole leaves no more orders than it has; but runs on objects are not judged while they go on.
"""

from __future__ import annotations

from nemesis.checks.check import Check

NONLINEARIZABLE = Check(
    name="nonlinearizable",
    promise="Every operation on an object takes effect at one moment between call and answer.",
    needs="objects",
    rests_on_all=True,
)
WRONG_ORDER = Check(
    name="wrong-order",
    promise="Operations on an object take effect in the order of their revisions.",
    needs="objects whose answers all came with a revision",
    rests_on_all=True,
)
