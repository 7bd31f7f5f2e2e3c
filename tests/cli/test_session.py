"""What holds for every command, none of which needs a server."""

import signal
import subprocess
import sys
from typing import Any

import pytest

from headrace.cli.session import Session, Stopped, _stop, override, uninterrupted

NOWHERE = "127.0.0.1:1"


def test_help_lists_every_noun_with_serve_among_them(offline: Any) -> None:
    text = offline("--help").text
    for noun in ("serve", "topic", "produce", "consume", "group"):
        assert noun in text


@pytest.mark.parametrize("noun", ["topic", "group"])
def test_a_noun_alone_shows_its_verbs(offline: Any, noun: str) -> None:
    result = offline(noun, code=2)
    assert "list" in result.text + result.err
    assert "describe" in result.text + result.err


def test_the_version_can_be_asked_for(offline: Any) -> None:
    assert offline("--version").text.startswith("headrace ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("frobnicate",),
        ("topic", "frobnicate"),
        ("topic", "create"),
        ("topic", "create", "t", "--partitions", "0"),
        ("topic", "create", "t", "--config", "novalue"),
        ("topic", "alter", "t"),
        ("topic", "list", "("),
        ("produce", "t", "v", "--file", "f"),
        ("produce", "t", "--key", "k", "--key-delimiter", ":"),
        ("produce", "t", "--header", "=v"),
        ("produce", "t", "--format", "xml"),
        ("produce", "t", "--key-delimiter", "\\q"),
        ("produce", "t", "--timestamp", "soon"),
        ("consume", "t", "--from", "soon"),
        ("consume", "t", "--to", "2026-02-30"),
        ("consume", "t", "--exit", "--to", "5"),
        ("consume", "t", "--group", "g", "--partition", "0"),
        ("consume", "t", "--format", "%x"),
        ("consume", "t", "--grep", "("),
        ("consume", "t", "--count", "0"),
        ("group", "reset", "g", "--to-latest"),
        ("group", "reset", "g", "--topic", "t"),
        ("group", "reset", "g", "--topic", "t", "--to-latest", "--to-earliest"),
        ("group", "reset", "g", "--topic", "t", "--by-duration", "soon"),
        ("group", "reset", "g", "--topic", "t:x", "--to-latest"),
        ("topic", "list", "--timeout", "never"),
    ],
)
def test_wrong_usage_is_one_sentence_and_ends_with_2(offline: Any, arguments: tuple[str, ...]) -> None:
    result = offline(*arguments, code=2)
    assert result.err.startswith("headrace: ")
    assert result.err.count("\n") == 1
    assert result.out == b""


def test_an_unreachable_server_says_what_to_do(offline: Any) -> None:
    result = offline("topic", "list", "--server", NOWHERE, code=1)
    assert result.err == (
        f"headrace: can't reach {NOWHERE}: connection refused; is the server running there? "
        "'headrace serve' starts one, --server names another\n"
    )


def test_global_options_may_stand_before_or_after_the_noun(offline: Any) -> None:
    before = offline("--server", NOWHERE, "--json", "topic", "list", code=1)
    after = offline("topic", "list", "--server", NOWHERE, "--json", code=1)
    assert before.error == after.error
    assert before.error["code"] is None


def test_the_option_wins_over_the_environment(offline: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_SERVER", "127.0.0.1:2")
    assert "127.0.0.1:2" in offline("topic", "list", code=1).err
    assert NOWHERE in offline("--server", NOWHERE, "topic", "list", code=1).err
    assert NOWHERE in offline("topic", "list", "--server", NOWHERE, code=1).err


def test_with_json_errors_are_objects_too(offline: Any) -> None:
    assert "frobnicate" in offline("frobnicate", "--json", code=2).error["message"]
    assert "its own format" in offline("consume", "t", "--json", "--format", "%s", code=2).error["message"]


def test_an_address_that_is_none_is_refused(offline: Any) -> None:
    assert "the port is a number" in offline("topic", "list", "--server", "host:port", code=1).err


def test_overriding_keeps_what_was_not_given() -> None:
    base = Session(server="a:1", json=True, timeout_s=5, quiet=True)
    assert override(base, None, False, None, False) == base
    assert override(base, "b:2", False, 7, False) == Session(server="b:2", json=True, timeout_s=7, quiet=True)


def test_serve_starts_without_the_libraries_of_the_other_commands() -> None:
    """`serve --help` runs as far as argparse; typer and rich must not have been imported for it."""
    script = (
        "import sys\n"
        "from headrace.cli.main import run\n"
        "try:\n    run(['serve', '--help'])\nexcept SystemExit: pass\n"
        "wrong = {'typer', 'rich', 'headrace.client'} & set(sys.modules)\n"
        "sys.exit(f'imported {wrong}' if wrong else 0)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "--data" in ended.stdout


def test_a_table_is_aligned_and_never_cut(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    Session().table(("NAME", "COUNT", "NOTE"), [("a" * 300, 5, None), ("b", 1000, "x")])
    lines = capsysbinary.readouterr().out.decode().splitlines()
    assert lines[0] == f"{'NAME':<300}  COUNT  NOTE"
    assert lines[1] == f"{'a' * 300}      5  -"
    assert lines[2] == f"{'b':<300}   1000  x"


def interrupted(times: int, done: list[str]) -> None:
    with uninterrupted():
        for _ in range(times):
            _stop(signal.SIGINT, None)
        done.append("all of it")


def test_an_interrupt_waits_for_what_is_done_together_and_a_second_does_not() -> None:
    done: list[str] = []
    with pytest.raises(Stopped) as caught:
        interrupted(1, done)
    assert caught.value.exit_code == 130
    assert done == ["all of it"]
    with pytest.raises(Stopped):
        interrupted(2, done)
    assert done == ["all of it"]
    interrupted(0, done)
    assert done == ["all of it"] * 2
