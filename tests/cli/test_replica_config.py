"""Settings from a file: what counts for more than what, what is refused, and what ``replica config`` says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from replica.cli.__main__ import main
from replica.cli.config_file import FILE_BYTES_MAX, ConfigFileError, read_settings, settings_of
from replica.cli.start import server_options_from, start_command
from replica.core.config import LogFlush
from replica.ids import ReplicaId
from replica.server.options import ProcessRole, ServerOptions

EXAMPLE = Path(__file__).parents[2] / "docs" / "replica.toml"
ONE, TWO = ReplicaId(1), ReplicaId(2)
PLACES = 'data-dir = "d"\nlisten = "127.0.0.1:0"\n'


@pytest.fixture(autouse=True)
def _nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of whoever runs the tests counts, and files are named briefly."""
    for setting in settings_of(start_command()):
        monkeypatch.delenv(setting.variable, raising=False)
    monkeypatch.delenv("REPLICA_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)


def replica(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def file_of(text: str) -> str:
    """A file of settings in this folder."""
    Path("r.toml").write_text(text, encoding="utf-8")
    return "r.toml"


def options_of(text: str, *arguments: str) -> ServerOptions:
    """What a replica would be started with by a file and these options."""
    with start_command().make_context("start", ["--config", file_of(PLACES + text), *arguments]) as context:
        return server_options_from(context.params, files_are_read=False)


def shown(*arguments: object) -> dict[str, dict[str, Any]]:
    """What ``replica config show`` says, by the keys of settings."""
    result = replica("config", "show", "--format", "json", "--origin", *arguments)
    assert result.exit_code == 0, result.output
    return {row["setting"]: row for row in json.loads(result.output)}


# --- what counts for more -------------------------------------------------------------------------------------------


def test_flags_count_for_more_than_the_environment_and_that_for_more_than_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A setting comes from the first that has it: an option, a variable, the file, the default."""
    text = "fetch-timeout-ms = 3000\nrequest-timeout-ms = 3000\nelection-timeout-ms = 3000\n"
    monkeypatch.setenv("REPLICA_FETCH_TIMEOUT_MS", "4000")
    monkeypatch.setenv("REPLICA_REQUEST_TIMEOUT_MS", "4000")
    quorum = options_of(text, "--fetch-timeout-ms", "5000").quorum
    assert (quorum.fetch_timeout_ms, quorum.request_timeout_ms) == (5000, 4000)
    assert (quorum.election_timeout_ms, quorum.election_backoff_max_ms) == (3000, 1000)


def test_an_empty_variable_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is set to nothing is not set, and leaves the file its say."""
    monkeypatch.setenv("REPLICA_RACK", "")
    assert options_of('rack = "a"').rack == "a"


def test_the_environment_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """REPLICA_CONFIG is ``--config``, which counts for more."""
    Path("other.toml").write_text('rack = "other"', encoding="utf-8")
    monkeypatch.setenv("REPLICA_CONFIG", file_of('rack = "this"'))
    assert shown()["rack"]["value"] == "this"
    assert shown("--config", "other.toml")["rack"]["value"] == "other"


def test_every_kind_of_setting_can_stand_in_a_file() -> None:
    """Numbers, switches, words, text, addresses, paths and tables arrive as options of the same name would."""
    text = """
    log-flush = "os"
    roles = "broker"
    elr-enable = false
    group-lease-reads = true
    replica-id = 0
    rack = "a"
    advertised-address = "a:1"
    log-segment-bytes = 1_048_576
    [voter]
    1 = "a:1"
    2 = "a:2"
    [dial]
    2 = "a:3"
    [group]
    accounts = "key-value"
    """
    words = ["--log-flush", "os", "--roles", "broker", "--no-elr-enable", "--group-lease-reads", "--replica-id", "0"]
    words += ["--rack", "a", "--advertised-address", "a:1", "--log-segment-bytes", "1048576", "--voter", "1=a:1"]
    words += ["--voter", "2=a:2", "--dial", "2=a:3", "--group", "accounts=key-value"]
    found = options_of(text)
    assert found == options_of("", *words)
    assert (found.broker.log_flush, set(found.roles)) == (LogFlush.OS, {ProcessRole.BROKER})
    assert found.voters == {ONE: "a:1", TWO: "a:2"}


def test_a_table_is_taken_whole_from_one_place() -> None:
    """Voters of an option replace those of the file."""
    assert options_of('[voter]\n1 = "a:1"\n', "--voter", "2=a:2").voters == {TWO: "a:2"}


def test_files_of_tls_come_from_a_file_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them by itself, and what options of ``replica`` or variables say counts for more."""
    text = 'tls-ca-file = "ca.pem"\ntls-cert-file = "cert.pem"\ntls-key-file = "key.pem"\n'
    tls = options_of(text).tls
    assert tls is not None
    assert (tls.ca_file, tls.cert_file, tls.key_file) == (Path("ca.pem"), Path("cert.pem"), Path("key.pem"))
    monkeypatch.setenv("REPLICA_TLS_CERT_FILE", "other.pem")
    result = replica("--tls-ca-file", "mine.pem", "config", "show", "--format", "json", "--config", file_of(text))
    found = {row["setting"]: row["value"] for row in json.loads(result.output)}
    assert (found["tls-ca-file"], found["tls-cert-file"], found["tls-key-file"]) == ("mine.pem", "other.pem", "key.pem")


def test_every_setting_can_stand_in_a_file() -> None:
    """For each setting there is a value that a file may give it, and that arrives."""
    for setting in settings_of(start_command()):
        value = _some_value(setting)
        is_table = setting.multiple and "=" in setting.unit
        path = file_of(f"[{setting.key}]\n{value}" if is_table else f"{setting.key} = {value}")
        assert list(read_settings(Path(path), settings_of(start_command()))) == [setting.name]


def test_super_users_are_a_list() -> None:
    """Those that a file names arrive, and who is no text in a list is refused."""
    text = 'authorizer = "acl"\nsuper-user = ["User:ops", "User:root"]\n'
    text += 'tls-ca-file = "ca.pem"\ntls-cert-file = "cert.pem"\ntls-key-file = "key.pem"\n'
    assert options_of(text).access.super_users == ("User:ops", "User:root")
    refused = replica("config", "check", file_of('super-user = "User:ops"\n'))
    assert (refused.exit_code, "it must be a list of User:NAME" in refused.output) == (1, True)


def _some_value(setting: Any) -> str:
    match setting.type:
        case _ if setting.multiple:
            return '1 = "a:1"' if "=" in setting.unit else '["User:ops"]'
        case _ if setting.is_flag:
            return "false"
        case click.IntRange(min=least):
            return str(least)
        case click.Choice(choices=choices):
            return f'"{choices[0]}"'
        case _:
            return '"a:1"'


# --- what is refused ------------------------------------------------------------------------------------------------

SECRET = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49"
REFUSED = [
    ("fetch-timout-ms = 3000", "there is no setting 'fetch-timout-ms' (did you mean fetch-timeout-ms?)"),
    ("fetch_timeout_ms = 3000", "there is no setting 'fetch_timeout_ms' (did you mean fetch-timeout-ms?)"),
    ("fetch-timeout-ms = 3000\nfetch_timeout_ms = 3000", "there is no setting 'fetch_timeout_ms' (did you mean fetch-"),
    ("no-elr-enable = true", "there is no setting 'no-elr-enable' (did you mean elr-enable = false?)"),
    ("config = 'x.toml'", "there is no setting 'config'"),
    ("zebra = 3000", "there is no setting 'zebra'"),
    (f"{'k' * 5000} = 1", f"there is no setting '{'k' * 80}...'"),
    ("[quorum]\nfetch-timeout-ms = 1", "there is no setting 'quorum'"),
    ("fetch-timeout-ms = '3000'", "fetch-timeout-ms is '3000'; it must be a whole number from 2 to 2147483647"),
    ("fetch-timeout-ms = 3000.5", "fetch-timeout-ms is 3000.5; it must be a whole number from 2 to 2147483647"),
    ("fetch-timeout-ms = true", "fetch-timeout-ms is true; it must be a whole number from 2 to 2147483647"),
    ("fetch-timeout-ms = 1", "fetch-timeout-ms is 1; it must be a whole number from 2 to 2147483647"),
    ("fetch-timeout-ms = 0x" + "f" * 9000, "fetch-timeout-ms is a number that is too large; it must be a whole"),
    ("fetch-timeout-ms = [1]", "fetch-timeout-ms is a list; it must be a whole number"),
    ("fetch-timeout-ms = 1979-05-27", "fetch-timeout-ms is 1979-05-27; it must be a whole number"),
    ("elr-enable = 'no'", "elr-enable is 'no'; it must be true or false"),
    ("elr-enable = 1", "elr-enable is 1; it must be true or false"),
    ("log-flush = 'never'", """log-flush is 'never'; it must be one of "fsync", "os\""""),
    ("log-flush = 1", """log-flush is 1; it must be one of "fsync", "os\""""),
    ("rack = 1", "rack is 1; it must be text in quotes"),
    ("rack = ''", "rack is ''; it must be text in quotes"),
    ("metrics-listen = 9100", "metrics-listen is 9100; it must be HOST:PORT in quotes"),
    (f"rack = ['{'x' * 5000}']", "rack is a list; it must be text in quotes"),
    ("voter = '1=a:1'", "voter is '1=a:1'; it must be a table: [voter], and below it ID = \"HOST:PORT\""),
    ("voter = ['1=a:1']", 'voter is a list; it must be a table: [voter], and below it ID = "HOST:PORT"'),
    ("[voter]\n1 = 9101", "voter has 9101 for '1'; it must be HOST:PORT in quotes"),
    ("[voter]\n'1=a:1' = 'b'", "voter has the key '1=a:1'; it must be ID alone"),
    ("[group]\nkv = true", "group has true for 'kv'; it must be MACHINE in quotes"),
    ("[voter]\n1 = 'a:1'\nrack = 'a'", "rack stands in the table [voter]: move it above the first table"),
    (f'tls-key-file = """{SECRET}"""', "tls-key-file is no path, which has neither line breaks nor control"),
    (f'rack = ["""{SECRET}"""]', "rack is a list; it must be text in quotes"),
    (f'elr-enable = """{SECRET}"""', "elr-enable is a text of several lines; it must be true or false"),
    ('data-dir = "a\\u0000b"', "data-dir is no path, which has neither line breaks nor control characters"),
    ("rack = \n", "Invalid value (at line 1, column 8)"),
    ("\nrack = 'a'\nrack = 'b'\n", "Cannot overwrite a value (at line 3, column 11)"),
    ("a = " + "[" * 5000, "its values are nested too deeply"),
    ("a = 1" + "0" * 5000, "Exceeds the limit"),
]


@pytest.mark.parametrize(("text", "complaint"), REFUSED, ids=[complaint[:40] for _, complaint in REFUSED])
def test_what_a_file_cannot_say_is_one_sentence(text: str, complaint: str) -> None:
    """The sentence names the file, the key and what it may be, and never what could be a secret."""
    result = replica("config", "check", file_of(text))
    assert result.exit_code == 1, result.output
    assert result.output.startswith(f"Error: r.toml: {complaint}")
    assert len(result.output.splitlines()) == 1
    assert len(result.output) < 300
    assert "MIGHAgEAMBMG" not in result.output
    started = replica("start", "--data-dir", "d", "--listen", "127.0.0.1:0", "--config", "r.toml")
    assert (started.exit_code, started.output) == (1, result.output)


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    """One that is missing, is a folder, is too large or is no text."""
    (tmp_path / "latin").write_bytes(b'rack = "a"\n# \xe9')
    (tmp_path / "large").write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    for name, complaint in (
        ("missing", "missing cannot be read: No such file or directory"),
        ("latin", "latin: line 2 is no UTF-8"),
        ("large", f"large is larger than {FILE_BYTES_MAX} bytes"),
    ):
        result = replica("config", "check", name)
        assert (result.exit_code, result.output.startswith(f"Error: {complaint}")) == (1, True), result.output
    with pytest.raises(ConfigFileError, match="cannot be read: Is a directory"):
        read_settings(tmp_path, [])


def test_the_largest_file_is_read() -> None:
    """A file at the bound is a file."""
    assert read_settings(Path(file_of("#" * FILE_BYTES_MAX)), []) == {}


def test_a_file_of_keys_is_refused_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who gives the key in the place of its file meets no error that has the key."""
    for variable in ("REPLICA_TLS_KEY_FILE", "REPLICA_TLS_CA_FILE"):
        monkeypatch.setenv(variable, SECRET)
        result = replica("config", "show")
        assert (result.exit_code, "give the path of a file, not its text" in result.output) == (2, True)
        assert "MIGHAgEAMBMG" not in result.output
        monkeypatch.delenv(variable)


# --- replica config -------------------------------------------------------------------------------------------------


def test_each_setting_is_shown_with_its_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    """An option by its name, a variable by its name, a file by its name and key, and the default as that."""
    monkeypatch.setenv("REPLICA_STOP_GRACE_MS", "7")
    path = file_of('rack = "a"\n[voter]\n1 = "a:1"\n')
    found = shown("--config", path, "--no-elr-enable", "--listen", "127.0.0.1:1")

    def told(key: str) -> tuple[Any, str, str | None]:
        return found[key]["value"], found[key]["origin"], found[key]["place"]

    assert told("elr-enable") == (False, "option", "--no-elr-enable")
    assert told("listen") == ("127.0.0.1:1", "option", "--listen")
    assert told("stop-grace-ms") == (7, "environment", "REPLICA_STOP_GRACE_MS")
    assert told("rack") == ("a", "file", "r.toml: rack")
    assert told("voter") == (["1=a:1"], "file", "r.toml: voter")
    assert told("fetch-timeout-ms") == (2000, "default", None)
    assert told("fetch-max-bytes") == ([1 << 20, 16 << 20], "default", None)
    assert told("data-dir") == (None, "default", None)
    assert set(found) == {setting.key for setting in settings_of(start_command())}


def test_a_table_for_people_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ``--origin`` there are keys and values, with it a third column."""
    monkeypatch.setenv("REPLICA_STOP_GRACE_MS", "7")
    lines = replica("config", "show").output.splitlines()
    assert lines[0].split() == ["SETTING", "VALUE"]
    assert ["stop-grace-ms", "7"] in [line.split() for line in lines]
    lines = replica("config", "show", "--origin").output.splitlines()
    assert ["stop-grace-ms", "7", "environment", "REPLICA_STOP_GRACE_MS"] in [line.split() for line in lines]
    assert ["elr-enable", "true", "default"] in [line.split() for line in lines]


def test_what_is_shown_is_what_holds() -> None:
    """Defaults that are shown, written into a file, change nothing."""
    found = {key: row["value"] for key, row in shown().items() if row["value"] is not None and key != "tls-client-auth"}
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in found.items() if not isinstance(value, list))
    assert options_of(text) == options_of("")
    assert len(found) > 80


def test_a_file_is_checked_without_a_start() -> None:
    """What start would refuse is refused, what could be started is not; nothing is made, and no certificate is read."""
    right = replica("config", "check", file_of(f'{PLACES}rack = "a"\n[group]\nkv = "key-value"'))
    assert (right.exit_code, right.output) == (0, "r.toml: 4 settings that can work together\n")
    empty = replica("config", "check", file_of(""))
    assert empty.output == "r.toml: 0 settings that can work together; data-dir and listen must be given as well\n"
    for text, complaint in (
        ("fetch-max-wait-ms = 2000", "fetch_max_wait_ms (2000) must be below fetch_timeout_ms (2000)"),
        ("listen = 'nowhere'", "listen: 'nowhere' is not HOST:PORT"),
        ("[voter]\nx = 'a:1'", "'x=a:1' is not ID=HOST:PORT"),
        ("[voter]\n1 = 'a:1'\n01 = 'a:2'", "replica 1 is named twice"),
        ("[group]\nkv = 'key-valu'", "key-valu"),
        ("roles = 'king'", "'king' is no role"),
        ("tls-client-auth = true", "--tls-client-auth says nothing without TLS"),
        ("tls-ca-file = 'ca.pem'", "a replica must say who it is"),
        ("tls-key-file = 'key.pem'", "say whom to believe with --tls-ca-file"),
    ):
        result = replica("config", "check", file_of(text))
        assert result.exit_code in (1, 2), text
        assert complaint in result.output
    assert not Path("d").exists()


def test_a_check_counts_on_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a file leaves to variables is there where they are set, and may contradict it."""
    monkeypatch.setenv("REPLICA_DATA_DIR", "d")
    monkeypatch.setenv("REPLICA_FETCH_TIMEOUT_MS", "400")
    result = replica("config", "check", file_of("fetch-max-wait-ms = 400"))
    assert (result.exit_code, "fetch_timeout_ms (400)" in result.output) == (1, True)
    monkeypatch.delenv("REPLICA_FETCH_TIMEOUT_MS")
    assert replica("config", "check", file_of("")).output.endswith("together; listen must be given as well\n")


def test_the_example_of_the_docs_can_be_started() -> None:
    """The file that the documentation shows is right as it stands, but for the certificates that it names."""
    result = replica("config", "check", EXAMPLE)
    assert (result.exit_code, result.output) == (0, f"{EXAMPLE}: 17 settings that can work together\n")
    with start_command().make_context("start", ["--config", str(EXAMPLE)]) as context:
        options = server_options_from(context.params, files_are_read=False)
    assert (options.controller.min_insync_replicas, options.asks_for_certificates, len(options.voters)) == (2, False, 3)
    assert options.groups == {"accounts": "key-value"}


def test_a_file_is_not_read_for_completion() -> None:
    """A shell that asks for words is not told of a file that is missing."""
    context = start_command().make_context("start", ["--config", "missing"], resilient_parsing=True)
    assert context.default_map is None
