"""Models by name: those that come with the harness, and those that others bring.

Others bring theirs as an entry point of the group ``nemesis.models``, by a name of their own, or unnamed as
``module:Class``. A name of the harness is never replaced by another's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType

from nemesis.linearizability.model import Model
from nemesis.linearizability.models.append_list import AppendList
from nemesis.linearizability.models.counter import Counter
from nemesis.linearizability.models.fifo_queue import FifoQueue
from nemesis.linearizability.models.grow_set import GrowSet
from nemesis.linearizability.models.key_value import KeyValue
from nemesis.linearizability.models.log import Log
from nemesis.linearizability.models.multi_register import MultiRegister
from nemesis.linearizability.models.mutex import Lock, Mutex
from nemesis.linearizability.models.register import CasRegister, Register
from nemesis.linearizability.models.text_store import TextStore

ENTRY_POINT_GROUP = "nemesis.models"

_OWN = (
    Register,
    CasRegister,
    MultiRegister,
    KeyValue,
    TextStore,
    Mutex,
    Lock,
    FifoQueue,
    GrowSet,
    Counter,
    Log,
    AppendList,
)
MODELS: Mapping[str, type[Model]] = MappingProxyType({model.name: model for model in _OWN})
"""The models that come with the harness."""


class UnknownModelError(LookupError):
    """There is no model of this name; the message says which there are."""


def model_names() -> list[str]:
    """The names of all models that ``load_model`` finds, those of entry points included."""
    return sorted({*MODELS, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))})


def load_model(name: str, **options: object) -> Model:
    """The model of this name, or the class at ``module:Class``, made with ``options``.

    Raises ``UnknownModelError`` if there is none, or what is there makes no ``Model``, and ``TypeError`` for an option
    that it does not have.
    """
    model = _factory(name)(**options)
    if not isinstance(model, Model):
        raise UnknownModelError(f"{name} makes {model!r}, which is no Model")
    return model


def _factory(name: str) -> Callable[..., object]:
    if (own := MODELS.get(name)) is not None:
        return own
    found: object = None
    if ":" in name:
        module, _, attribute = name.partition(":")
        try:
            found = getattr(import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise UnknownModelError(f"no model at {name}: {error}") from error
    for point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        found = point.load()
    if not callable(found):
        raise UnknownModelError(f"no model {name!r}; there are {', '.join(model_names())}, and module:Class")
    return found
