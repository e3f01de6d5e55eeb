"""The RPCs and their messages, as the compiler of protocol buffers reads ``proto/``, with the comments there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from docs.reference.tables import code, prose, table

ROOT = Path(__file__).parents[2] / "proto"
MESSAGES, ENUMS, SERVICES = 4, 5, 6
"""The fields of a file's descriptor, of which the places of comments are made."""
FIELDS, NESTED, VALUES, METHODS = 2, 3, 2, 2
Place = tuple[int, ...]


def page() -> str:
    """All services first, then all messages and enums, file by file."""
    files = list(described())
    services = "".join(map(_services, files))
    return f"# RPCs\n\nPackage `replica.v1`, from `proto/replica/v1`.\n\n{services}" + "".join(map(_types, files))


def described() -> Iterator[FileDescriptorProto]:
    """Each file, with its comments."""
    from grpc_tools import protoc

    names = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.proto"))
    with TemporaryDirectory() as folder:
        out = Path(folder) / "described"
        code_of_end = protoc.main(["", f"-I{ROOT}", "--include_source_info", f"--descriptor_set_out={out}", *names])
        assert code_of_end == 0, f"protoc ended with {code_of_end}"
        yield from FileDescriptorSet.FromString(out.read_bytes()).file


def _comments(file: FileDescriptorProto) -> Mapping[Place, str]:
    places = file.source_code_info.location
    return {tuple(place.path): place.leading_comments for place in places if place.leading_comments}


def _services(file: FileDescriptorProto) -> str:
    said = _comments(file)
    text = ""
    for number, service in enumerate(file.service):
        place = (SERVICES, number)
        rows = [
            (
                code(method.name),
                _linked(method.input_type, method.client_streaming),
                _linked(method.output_type, method.server_streaming),
                prose(said.get((*place, METHODS, index), "")),
            )
            for index, method in enumerate(service.method)
        ]
        text += f"## {service.name}\n\n{prose(said.get(place, ''))}\n\n"
        text += table(("RPC", "request", "response", "what it does"), rows)
    return text


def _types(file: FileDescriptorProto) -> str:
    said = _comments(file)
    parts = [_enum(enum, (ENUMS, number), said) for number, enum in enumerate(file.enum_type)]
    parts += [_message(message, (MESSAGES, number), said) for number, message in enumerate(file.message_type)]
    return f"## Messages of `{Path(file.name).name}`\n\n" + "".join(parts)


def _enum(enum: EnumDescriptorProto, place: Place, said: Mapping[Place, str]) -> str:
    rows = [
        (str(value.number), code(value.name), prose(said.get((*place, VALUES, index), "")))
        for index, value in enumerate(enum.value)
    ]
    return _head(enum.name, place, said) + table(("number", "value", "meaning"), rows)


def _message(message: DescriptorProto, place: Place, said: Mapping[Place, str]) -> str:
    entries = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
    rows = [
        (str(field.number), code(field.name), _type(field, entries), prose(said.get((*place, FIELDS, index), "")))
        for index, field in enumerate(message.field)
    ]
    fields = table(("number", "field", "type", "meaning"), rows) if rows else "It has no fields.\n\n"
    nested = [
        _message(inner, (*place, NESTED, index), said)
        for index, inner in enumerate(message.nested_type)
        if inner.name not in entries
    ]
    return _head(message.name, place, said) + fields + "".join(nested)


def _head(name: str, place: Place, said: Mapping[Place, str]) -> str:
    words = prose(said.get(place, ""))
    return f"### {name}\n\n" + (f"{words}\n\n" if words else "")


def _type(field: FieldDescriptorProto, entries: Mapping[str, DescriptorProto]) -> str:
    entry = entries.get(field.type_name.rpartition(".")[2])
    if entry is not None:
        key, value = (_type(part, {}) for part in entry.field)
        return f"map of {key} to {value}"
    scalar = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    word = _linked(field.type_name) if field.type_name else code(scalar)
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {word}"
    return f"optional {word}" if field.proto3_optional else word


def _linked(type_name: str, is_stream: bool = False) -> str:
    package, _, name = type_name.rpartition(".")
    word = f"[{code(name)}](#{name.lower()})" if package == ".replica.v1" else code(type_name.strip("."))
    return f"stream of {word}" if is_stream else word


def rpc_names(files: Sequence[FileDescriptorProto]) -> list[str]:
    """The name of every RPC."""
    return [method.name for file in files for service in file.service for method in service.method]
