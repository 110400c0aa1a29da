"""The demo among strangers: what it lets in, what it keeps, what it logs, whose turn it is."""

import gc
import http.client
import json
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import psutil
import pytest
from tiny_models import build

import unmask
from unmask import cli
from unmask.demo import Limits, forgetting, serve
from unmask.demo.door import LARGEST_BODY, Hosts
from unmask.demo.handlers import Handlers
from unmask.demo.question import DemoQuestion

JOIN, DATA, RUN = ("/gradio_api/queue/join", "/gradio_api/queue/data", "/gradio_api/run/predict")
TEXT = "the cat sat on the mat."
SECRET = re.compile("zq[0-9a-f]{16}")


class Client:
    """Speaks to a demo as its page does, and as its page never would."""

    def __init__(self, address: str) -> None:
        self.host = urlsplit(address).netloc
        _, _, config = self.ask("GET", "/config")
        self._functions = {
            re.sub(r"_\d+$", "", one["api_name"]): one["id"]
            for one in reversed(json.loads(config)["dependencies"])
            if one["api_name"]
        }

    def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.host, timeout=120)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            chunked = body is not None and not isinstance(body, bytes)
            connection.request(method, path, body, named, encode_chunked=chunked)
            found = connection.getresponse()
            return found.status, dict(found.getheaders()), found.read()
        finally:
            connection.close()

    def post(self, path: str, value: Any, **headers: str) -> tuple[int, bytes]:
        body = json.dumps(value).encode()
        status, _, said = self.ask("POST", path, body, Content_Type="application/json", **headers)
        return status, said

    def call(self, name: str, data: list[Any], **fields: Any) -> tuple[int, bytes]:
        """A handler that is not queued."""
        asked = {"data": data, "fn_index": self._functions[name], "session_hash": "page"}
        return self.post(RUN, asked | fields)

    def join(self, name: str, data: list[Any], session: str) -> tuple[int, bytes]:
        asked = {"data": data, "fn_index": self._functions[name], "session_hash": session}
        return self.post(JOIN, asked)

    def answer(self, name: str, data: list[Any], session: str) -> str:
        """A queued handler's whole stream of messages."""
        status, said = self.join(name, data, session)
        assert status == 200, said
        _, _, stream = self.ask("GET", f"{DATA}?session_hash={session}")
        return stream.decode()


def tiny() -> unmask.LanguageModel:
    return unmask.load(build("bert"))


@pytest.fixture(scope="module")
def demo() -> Iterator[Any]:
    with serve(tiny(), limits=Limits(waiting=4)) as served:
        yield served


@pytest.fixture(scope="module")
def client(demo: Any) -> Client:
    return Client(demo.address)


def secret() -> str:
    return f"zq{secrets.token_hex(8)}"


# --- turns -------------------------------------------------------------------------------------


def slow(lm: unmask.LanguageModel, seconds: float, seen: Callable[[], None]) -> None:
    embeddings = lm.model.model.bert.embeddings  # type: ignore[attr-defined]

    def wait(*_: object) -> None:
        seen()
        time.sleep(seconds)

    embeddings.register_forward_pre_hook(wait)


def handlers(lm: unmask.LanguageModel) -> Handlers:
    settings, sketch = unmask.Settings(), unmask.Sketch()
    return Handlers(lm, settings=settings, sketch=sketch, default=DemoQuestion(TEXT), places=4)


@pytest.mark.slow
def test_the_model_never_runs_twice_at_once() -> None:
    """A question at start-up is answered in its turn, and so are those of several visitors."""
    lm = tiny()
    at = handlers(lm)
    together: list[int] = []
    running: set[int] = set()

    def seen() -> None:
        running.add(threading.get_ident())
        together.append(len(running))

    def ended(*_: object) -> None:
        running.discard(threading.get_ident())

    slow(lm, 0.05, seen)
    lm.model.model.register_forward_hook(ended)  # type: ignore[attr-defined]
    found = list[Any]()
    mine, other = (DemoQuestion(TEXT, (2, 4), (method,)) for method in ("mlm", "log-pool"))
    threads = [
        threading.Thread(target=at.warm_up, args=(DemoQuestion(TEXT, (2, 4)),)),
        threading.Thread(target=lambda: found.extend(at.answer(other, "other"))),
        threading.Thread(target=lambda: found.extend(at.answer(mine, "me"))),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    at.close()
    assert sum(bool(one.cards) for one in found) == 2, found
    assert len(together) > 3
    assert set(together) == {1}


@pytest.mark.slow
def test_a_model_that_reads_no_example_is_served_all_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    at = handlers(tiny())
    at.warm_up(DemoQuestion("今天 [MASK] [MASK]"))
    assert capsys.readouterr().err == "unmask: the demo could not warm up: ClozeError\n"
    assert [*at.answer(DemoQuestion(TEXT, (2, 4), ("mlm",)))][-1].cards
    at.close()


# --- what is let in ----------------------------------------------------------------------------

EVERY = ("/", "/config", JOIN, RUN, "/gradio_api/upload", "/gradio_api/call/answer", "/nowhere")


@pytest.mark.slow
@pytest.mark.parametrize("path", EVERY)
def test_a_large_body_is_not_read(client: Client, path: str) -> None:
    status, headers, said = client.ask("POST", path, b"a" * (LARGEST_BODY + 1))
    assert (status, headers["content-type"]) == (413, "text/plain; charset=utf-8")
    assert said == b"The demo takes up to 64 kB.\n"


@pytest.mark.slow
@pytest.mark.parametrize("path", [JOIN, RUN])
def test_a_large_stream_ends_at_the_limit(client: Client, path: str) -> None:
    """Without a length: as many pieces as it takes, and not all that would come."""
    sent = 0

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(5_000):
            sent += 1
            yield b"a" * 8_192

    try:
        status, _, said = client.ask(
            "POST", path, pieces(), Content_Type="application/json", Transfer_Encoding="chunked"
        )
        assert (status, said) == (413, b"The demo takes up to 64 kB.\n")
    except ConnectionError:
        # the server does not wait for what it will not read
        pass
    assert sent < 2_500


@pytest.mark.slow
@pytest.mark.parametrize("length", ["-1", "many", "1e3", "99999999999999999999"])
def test_a_length_that_is_not_one(client: Client, length: str) -> None:
    connection = http.client.HTTPConnection(client.host, timeout=120)
    connection.putrequest("POST", JOIN)
    connection.putheader("Content-Length", length)
    connection.endheaders()
    assert connection.getresponse().status in (400, 413)
    connection.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/deep_link?session_hash=page",
        "/gradio_api/file=http://127.0.0.1:9/secret",
        "/gradio_api/proxy=http://127.0.0.1:9/secret",
        "/gradio_api/upload_progress?upload_id=1",
        "/gradio_api/call/answer/1",
        "/gradio_api/runs",
        "/gradio_api/dev/reload",
        "/monitoring",
        "/monitoring/summary",
        "/openapi.json",
        "/gradio_api/openapi.json",
        "/assets/../config",
    ],
)
def test_what_the_page_has_no_use_for_is_not_there(client: Client, path: str) -> None:
    status, _, said = client.ask("GET", path)
    assert (status, said) == (404, b"There is nothing here.\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    [
        {"path": "http://127.0.0.1:9/x", "meta": {"_type": "gradio.FileData"}},
        {"a": 1},
        [[1]],
        [{"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}],
    ],
)
def test_nothing_but_plain_values_reaches_gradio(
    client: Client, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in place of a text would be fetched, wherever it is."""
    from gradio import processing_utils

    fetched: list[object] = []
    moved = processing_utils.async_move_files_to_cache

    async def move(data: Any, *given: Any, **named: Any) -> Any:
        fetched.append(data)
        return await moved(data, *given, **named)

    monkeypatch.setattr(processing_utils, "async_move_files_to_cache", move)
    status, said = client.call("edited", [value, "", ""])
    assert status == 500
    assert b"Something failed" in said
    assert not fetched


@pytest.mark.slow
@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "localhost.:9", "127.0.0.1:1", "[::1]:7860", "[::1]"]
)
def test_names_of_this_machine_are_answered(client: Client, host: str) -> None:
    assert client.ask("GET", "/config", Host=host)[0] == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:7860",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil.example:127.0.0.1",
        "10.0.0.1",
        "[::2]:7860",
        "[::1",
        "[::1]evil.example",
        "::1",
        "127.0.0.1@evil.example",
        "127.0.0.1, evil.example",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/", JOIN, f"{DATA}?session_hash=x", "/gradio_api/heartbeat/x"])
def test_other_names_are_not(client: Client, host: str, path: str) -> None:
    """A site that makes its own name point here (DNS rebinding) is told nothing."""
    method = "POST" if path == JOIN else "GET"
    status, headers, said = client.ask(method, path, b"{}" if path == JOIN else None, Host=host)
    assert (status, headers["content-type"]) == (421, "text/plain; charset=utf-8")
    assert said.startswith(b"The demo does not answer to this host name")
    assert len(said) < 120


@pytest.mark.slow
def test_a_preflight_is_asked_its_name_too(client: Client) -> None:
    headers = {"Origin": "http://evil.example", "Access_Control_Request_Method": "POST"}
    assert client.ask("OPTIONS", JOIN, Host="evil.example", **headers)[0] == 421


@pytest.mark.slow
def test_no_web_sockets(client: Client) -> None:
    status, _, _ = client.ask(
        "GET",
        "/gradio_api/queue/join",
        Upgrade="websocket",
        Connection="Upgrade",
        Sec_WebSocket_Version="13",
        Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZQ==",
    )
    assert status in (400, 403, 404, 405)


@pytest.mark.parametrize(
    ("listens", "also", "asked", "answered"),
    [
        ("127.0.0.1", [], "demo.example", False),
        ("127.0.0.1", ["demo.example"], "demo.example:443", True),
        ("127.0.0.1", ["Demo.Example"], "demo.EXAMPLE.", True),
        ("box.lan", [], "box.lan:7860", True),
        ("192.0.2.7", [], "192.0.2.7:7860", True),
        ("192.0.2.7", [], "192.0.2.8:7860", False),
        # a name can be made to point anywhere, an address cannot
        ("0.0.0.0", [], "192.0.2.7:7860", True),
        ("::", [], "[2001:db8::1]:7860", True),
        ("[::]", [], "[::]:7860", True),
        ("0.0.0.0", [], "evil.example", False),
        ("0.0.0.0", [], socket.gethostname(), True),
        ("0:0:0:0:0:0:0:1", [], "[0:0::1]:7860", True),
    ],
)
def test_which_names_are_answered(
    listens: str, also: list[str], asked: str, answered: bool
) -> None:
    assert Hosts(listens, also).answer_to(asked) is answered


@pytest.mark.slow
@pytest.mark.parametrize("name", ["http://demo.example", "demo.example:80", "*", "a b", ""])
def test_a_name_to_allow_is_a_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "-m", "nothing", "--allow-host", name]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"unmask: an allowed host is a name without a port, not '{name}'")


# --- what is kept ------------------------------------------------------------------------------


def kept(pattern: "re.Pattern[str]") -> list[str]:
    """What was looked for in every string that some object of this process holds."""
    gc.collect()
    found: list[str] = []
    for one in gc.get_objects():
        todo = gc.get_referents(one)
        while todo:
            part = todo.pop()
            # by type: a weak proxy answers `isinstance` for what it stands for, which may be gone
            if issubclass(type(part), str | bytes | bytearray):
                text = part if issubclass(type(part), str) else bytes(part).decode("latin-1")
                found += pattern.findall(text)
            elif type(part) in (tuple, dict) and not gc.is_tracked(part):
                # held by this object alone, as far as the collector knows
                todo += gc.get_referents(part)
    return found


def wait_until_idle(demo: Any) -> None:
    queue = demo._blocks._queue
    until = time.monotonic() + 20
    while queue.pending_messages_per_session or queue.event_ids_to_events:
        assert time.monotonic() < until, queue.pending_messages_per_session
        time.sleep(0.1)


def question(word: str) -> list[Any]:
    return [f"the {word} sat on the [MASK] [MASK].", "", ["mlm", "log-pool"]]


@pytest.mark.slow
def test_nothing_that_visitors_write_stays(
    demo: Any, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every way to write something, and then a search of the whole process."""
    monkeypatch.setattr(forgetting, "KEPT_SECONDS", 0.4)
    for _ in range(2):
        assert "What fills" in client.ask("GET", f"/?text={secret()}&blanks=2")[2].decode()
        assert client.call("restored", [f"?text={secret()}%20[MASK]"])[0] == 200
        assert client.call("edited", [f"{secret()} [MASK]", secret(), "0"])[0] == 200
        clicked = {"place": 0, "word": secret()}
        assert client.call("clicked", [secret(), ""], event_data=clicked)[0] == 200
        assert "J = " in client.answer("answer", question(secret()), "page1")
        # who does not come for the answer
        assert client.join("answer", question(secret()), "page2")[0] == 200
        # what cannot be answered
        client.answer("answer", [secret(), "0", [secret()]], "page3")
        client.call("edited", [secret()])
        client.post(JOIN, {"data": [secret()], "fn_index": 999, "session_hash": "page4"})
        client.ask("POST", RUN, secret().encode(), Content_Type="application/json")
        client.ask("GET", f"/{quote(secret())}")
        client.ask("GET", f"/config?{secret()}={secret()}", Cookie=secret(), Referer=secret())
        client.ask("GET", f"{DATA}?session_hash={secret()}")
    wait_until_idle(demo)
    # and something that the search must find
    here = [secret()]
    # the answer that nobody came for may still be computed
    until = time.monotonic() + 20
    while (found := kept(SECRET)) != here and time.monotonic() < until:
        time.sleep(0.5)
    assert found == here


@pytest.mark.slow
def test_a_page_has_a_short_name(client: Client) -> None:
    """Gradio's tables of pages hold their names, which a program may choose as it likes."""
    for name in ("x" * 65, "the cat sat", "\u1234"):
        status, said = client.join("answer", question("cat"), name)
        assert (status, json.loads(said)) == (400, {"detail": "That is not the name of a page."})


@pytest.mark.slow
def test_tables_of_pages_stay_small(
    demo: Any, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "KEPT_SECONDS", 0.4)
    for number in range(5):
        client.answer("answer", ["the cat sat", "", ["mlm"]], f"visitor{number}")
    wait_until_idle(demo)
    queue, app = demo._blocks._queue, demo._blocks.app
    assert not queue.pending_event_ids_session
    assert not app.iterators
    assert not app.state_holder.session_data
    assert not demo._blocks.pending_diff_streams
    assert len(queue.event_analytics) <= 1


@pytest.mark.slow
def test_memory_is_flat_after_large_questions(client: Client) -> None:
    """Of the largest size that is allowed: answered, and gone."""
    word = "a" * (LARGEST_BODY - 2_000)

    def posts(count: int) -> int:
        for number in range(count):
            session = f"{secrets.token_hex(4)}{number}"
            assert "the demo takes" in client.answer("answer", [word, "0", ["mlm"]], session)
            assert client.call("edited", [word, word[:10], "0"], session_hash=session)[0] == 200
        gc.collect()
        return psutil.Process().memory_info().rss

    before = posts(10)
    assert posts(50) - before < 3_000_000


# --- what is logged ----------------------------------------------------------------------------


@pytest.mark.slow
def test_bad_requests_are_one_line_each_without_what_was_sent(
    client: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()
    word = secret()
    bad: list[Callable[[], object]] = [
        lambda: client.call("edited", [word]),
        lambda: client.call("edited", [{word: word}, word, word]),
        lambda: client.call("edited", [word, word, word], fn_index=word),
        lambda: client.call("edited", [word, word, word], fn_index=999),
        lambda: client.answer("answer", [word, "0", [word], word], "bad1"),
        lambda: client.answer("answer", [word, [word], word], "bad2"),
        lambda: client.answer("answer", ["\ud800", "0", [word]], "bad3"),
        lambda: client.answer("answer", [word], "bad4"),
        lambda: client.post(RUN, [word]),
        lambda: client.post(RUN, {"data": [word], "fn_index": 0, "session_hash": word * 9}),
        lambda: client.post(RUN, {"data": word, "trigger_id": word, "event_data": word}),
        lambda: client.ask("GET", f"{DATA}?session_hash={word}"),
        lambda: client.ask("GET", f"/assets/%00{word}"),
        lambda: client.ask("GET", f"/static/..%2f{word}"),
        lambda: client.ask("GET", "/config", Origin=f"http://[{word}"),
        lambda: client.ask("GET", "/", X_Forwarded_Host=f"[{word}"),
        lambda: client.post(
            JOIN,
            {"data": question(word), "fn_index": client._functions["answer"], "session_hash": "b"},
            X_Forwarded_Host=f"[{word}",
        ),
    ]
    for one in bad:
        one()
    time.sleep(0.5)
    said = capfd.readouterr()
    lines = said.err.splitlines()
    assert said.out == ""
    assert len(lines) >= 5
    assert len(lines) <= len(bad)
    assert all(re.fullmatch(r"unmask: the demo could not [a-z ]+: \w+", one) for one in lines), (
        lines
    )
    # and it goes on
    assert "Cost: " in client.answer("answer", question("cat"), "good")


@pytest.mark.slow
def test_another_page_of_the_process_keeps_its_tracebacks(
    client: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    """The demo quietens Gradio for its own requests alone."""
    from gradio import queueing

    capfd.readouterr()
    try:
        raise RuntimeError("mine")
    except RuntimeError:
        queueing.traceback.print_exc()
    assert "RuntimeError: mine" in capfd.readouterr().err
