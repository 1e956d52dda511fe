"""The server of the page: who may read it, what it sends, and that a browser that is slow or gone costs nothing."""

import http.client
import json
import socket
import threading
import time
from contextlib import closing, contextmanager

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from keyspread.errors import InputError
from keyspread.live_page import server
from keyspread.live_page.history import RunHistory
from keyspread.live_page.server import LivePage
from page_batches import made

TOKEN = "a-long-token"


@contextmanager
def served(**options):
    history = RunHistory("clicks")
    page = LivePage(history, port=options.pop("port", 0), **options)
    try:
        yield history, page
    finally:
        page.close()


def get(page, path="/", **headers):
    with closing(http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)) as connection:
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()


@contextmanager
def events(page, **headers):
    """Yield a function that returns the next snapshot."""
    with closing(http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)) as connection:
        connection.request("GET", "/events", headers=headers)
        answer = connection.getresponse()
        assert answer.getheader("content-type").startswith("text/event-stream")

        def following():
            while True:
                line = answer.readline().decode()
                if not line:
                    return None
                if line.startswith("data: "):
                    return json.loads(line.removeprefix("data: "))

        yield following


def test_the_page_its_data_and_the_page_as_a_file():
    with served() as (history, page):
        history.add(made(0))
        status, headers, text = get(page)
        assert (status, 'data-live="yes"' in text) == (200, True)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert json.loads(get(page, "/data.json")[2]) == json.loads(json.dumps(history.snapshot()))
        status, headers, text = get(page, "/report.html")
        assert (status, 'data-live="no"' in text) == (200, True)
        assert headers["content-disposition"] == 'attachment; filename="keyspread-run.html"'
        assert get(page, "/other")[0] == 404


def test_a_browser_gets_the_newest_snapshot_and_then_each_change():
    with served() as (history, page):
        history.add(made(0))
        with events(page) as following:
            assert following()["last"]["batch"] == 0
            history.add(made(1))
            assert following()["last"]["batch"] == 1
            history.end()
            assert following()["running"] is False


def test_what_a_slow_browser_missed_is_left_out():
    with served() as (history, page), events(page) as following:
        assert following()["last"] is None
        for number in range(500):
            history.add(made(number))
        seen = []
        while not seen or seen[-1] < 499:
            seen.append(following()["last"]["batch"])
        assert len(seen) <= 5


def test_browsers_that_do_not_read_or_vanish_do_not_hold_up_a_batch():
    with served() as (history, page):
        silent = []
        for _ in range(20):
            connection = socket.create_connection(("127.0.0.1", page.port))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            connection.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            silent.append(connection)  # never read
        for connection in silent[:10]:
            connection.close()
        done = threading.Event()

        def stream():
            for number in range(5000):
                history.add(made(number))
            done.set()

        threading.Thread(target=stream, daemon=True).start()
        assert done.wait(60)
        assert get(page)[0] == 200  # and others are still served
        for connection in silent[10:]:
            connection.close()


def test_closing_ends_open_connections_with_the_last_batch():
    with served() as (history, page), events(page) as following:
        following()
        history.add(made(7))
        threading.Thread(target=page.close).start()
        assert following()["last"]["batch"] == 7
        assert following() is None
    with pytest.raises(OSError, match="refused"):
        get(page)


def test_without_a_token_only_this_machine_by_its_own_name():
    with served() as (_, page):
        assert page.url == f"http://127.0.0.1:{page.port}/"
        for host in ("127.0.0.1:4050", "localhost", "localhost:1", "[::1]:4050"):
            assert get(page, Host=host)[0] == 200
        for path in ("/", "/events", "/data.json", "/report.html"):
            status, _, text = get(page, path, Host="evil.example:4050")
            assert (status, text) == (403, "Refused: this page has no token, so it is for 127.0.0.1 only.\n")


def test_with_a_token_everyone_who_has_it():
    with served(host="0.0.0.0", token=TOKEN) as (history, page):
        assert page.url == f"http://127.0.0.1:{page.port}/?token={TOKEN}"
        history.add(made(0))
        for path in ("/", "/events", "/data.json", "/report.html", "/?token=wrong", "/?token="):
            status, _, text = get(page, path, Host="other.example")
            assert (status, text) == (403, "Refused: add ?token=… to the address.\n")
        status, headers, _ = get(page, f"/?token={TOKEN}", Host="other.example")
        assert status == 200
        cookie = headers["set-cookie"].split(";")[0]
        assert "HttpOnly" in headers["set-cookie"]
        assert get(page, "/data.json", Host="other.example", Cookie=cookie)[0] == 200
        with events(page, Cookie=cookie) as following:
            assert following()["last"]["batch"] == 0


def test_so_many_browsers_get_events_and_the_others_one_line(monkeypatch):
    monkeypatch.setattr(server, "_MOST_BROWSERS", 2)
    with served() as (history, page):
        history.add(made(0))
        with events(page) as one, events(page) as two:
            assert one()["last"]["batch"] == two()["last"]["batch"] == 0
            assert get(page, "/events")[::2] == (503, "2 browsers are open; close one.\n")
            assert get(page)[0] == 200
        for _ in range(100):  # until the server has seen that they are gone
            history.add(made(1))
            if page._browsers == 0:
                break
            time.sleep(0.05)
        with events(page) as one:
            assert one() is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host": "0.0.0.0"}, "a page at 0.0.0.0 can be read by others: pass a token, or leave the host at 127.0.0.1"),
        ({"host": "::"}, "a page at :: can be read by others"),
        ({"host": "example.org"}, "a page at example.org can be read by others"),
        ({"token": "short"}, "the token of a page must have at least 8 characters, got 5: choose a longer one"),
        ({"token": "a b/<>&longer"}, "the token of a page may have the letters a to z, digits and"),
        ({"token": "tökenlängé"}, "the token of a page may have the letters a to z, digits and"),
        ({"port": 70_000}, "port must be at most 65535, got 70000"),
        ({"port": "x"}, "port must be a whole number"),
        ({"host": "203.0.113.1", "token": TOKEN, "port": 0}, "the page cannot be served at 203.0.113.1:0"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(InputError, match=message.replace(".", r"\.")):
        LivePage(RunHistory(""), **options)


def test_a_port_that_is_taken_is_named_and_by_default_the_next_one_is_used():
    with served() as (_, page), pytest.raises(InputError, match=r"cannot be served at 127\.0\.0\.1:\d+ \(.*in use\)"):
        LivePage(RunHistory(""), port=page.port)
    with served(port=None) as (_, first), served(port=None) as (_, second):
        assert 4050 <= first.port < second.port < 4100


def test_an_idle_connection_is_kept_alive(monkeypatch):
    monkeypatch.setattr("keyspread.live_page.server._ALIVE_SECONDS", 0.2)
    with served() as (_, page), closing(socket.create_connection(("127.0.0.1", page.port))) as connection:
        connection.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        connection.settimeout(10)
        got, end = b"", time.monotonic() + 20
        while b": still here" not in got and time.monotonic() < end:
            got += connection.recv(4096)
        assert b": still here" in got
