"""Where answers begin in the bytes of a connection: of calls with a stream each, and of calls that share one."""

from __future__ import annotations

import pytest

from nemesis.cluster.link_proxy import PREFACE, Conversation

DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8


def frame(kind: int, stream: int, payload: bytes = b"", flags: int = 0) -> bytes:
    """A frame of HTTP/2."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def conversation(*asked: bytes) -> Conversation:
    """One whose source has said all this, after what every client of HTTP/2 begins with."""
    heard = Conversation()
    heard.on_asked(PREFACE + frame(SETTINGS, 0) + b"".join(asked))
    return heard


REQUEST = frame(HEADERS, 1, b"path") + frame(DATA, 1, b"question")
GREETING = frame(SETTINGS, 0, b"abc") + frame(WINDOW_UPDATE, 0, b"1234") + frame(PING, 0, b"12345678")


def test_what_a_server_says_by_itself_is_no_answer() -> None:
    """Settings, windows and pings come before anything was asked."""
    assert conversation().on_answered(GREETING) == []
    assert conversation(REQUEST).on_answered(GREETING) == []


def test_an_answer_is_told_once_however_many_frames_it_has() -> None:
    """Headers, data in several frames, and the trailers of a unary call are one answer."""
    answer = frame(HEADERS, 1, b"ok") + frame(DATA, 1, b"half") + frame(DATA, 1, b"half") + frame(HEADERS, 1, b"0", 1)
    assert conversation(REQUEST).on_answered(GREETING + answer) == [len(GREETING)]


def test_each_call_on_a_stream_has_an_answer_of_its_own() -> None:
    """What is asked next on a stream that is kept is answered by data alone."""
    heard = conversation(REQUEST)
    assert heard.on_answered(frame(HEADERS, 1, b"ok") + frame(DATA, 1, b"one")) == [0]
    assert heard.on_answered(frame(WINDOW_UPDATE, 1, b"1234")) == []
    for _ in range(2):
        heard.on_asked(frame(DATA, 1, b"again"))
        assert heard.on_answered(frame(PING, 0, b"12345678") + frame(DATA, 1, b"two")) == [17]


def test_an_answer_on_another_stream_is_not_taken_for_one() -> None:
    """Two calls under way have two answers, in whatever order they come."""
    heard = conversation(REQUEST, frame(HEADERS, 3, b"path") + frame(DATA, 3, b"question"))
    assert heard.on_answered(frame(HEADERS, 3) + frame(HEADERS, 1)) == [0, 9]
    assert heard.on_answered(frame(DATA, 3, b"x") + frame(DATA, 1, b"x")) == []


@pytest.mark.parametrize("size", range(1, 24))
def test_frames_may_be_cut_anywhere(size: int) -> None:
    """However the bytes of both sides arrive in pieces, as many answers are told."""
    heard, asked = Conversation(), PREFACE + frame(SETTINGS, 0) + REQUEST + frame(DATA, 1, b"again")
    answered = GREETING + frame(HEADERS, 1, b"ok") + frame(DATA, 1, b"one")
    for begin in range(0, len(asked), size):
        heard.on_asked(asked[begin : begin + size])
    found = [heard.on_answered(answered[begin : begin + size]) for begin in range(0, len(answered), size)]
    assert sum(map(len, found)) == 1


def test_what_is_no_http_has_an_answer_in_each_chunk() -> None:
    """Of a protocol in which one asks first, whatever comes after that is an answer."""
    heard = Conversation()
    heard.on_asked(b"*1\r\n$4\r\nPING\r\n")
    assert heard.on_answered(b"+PONG\r\n") == [0]
