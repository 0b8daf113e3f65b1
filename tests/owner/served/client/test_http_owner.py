"""What the client makes of answers that are lost, wrong or late: scripted, for no real server fails on request."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import httpx
import orjson
import pytest

from slackwater.errors import (
    CommitFailed,
    CommitOwnerBusy,
    CommitOwnerUnavailable,
    CommitUnknown,
    InvalidArgument,
    NotAuthorized,
    ProtocolChangedException,
    SlackwaterError,
    TableNotFound,
)
from slackwater.owner.api.commits import CommitConflict, CommitResponse
from slackwater.owner.served.client.deadline import LONGEST_ASKED_WAIT_S
from slackwater.owner.served.client.http_owner import HttpOwner
from slackwater.owner.served.wire.errors import error_to_json
from tests.owner.served.memory_owner import MemoryOwner
from tests.owner.served.scripted import LOST, NEVER_SENT, TOKEN, Script, Step, answered, failed
from tests.owner.served.serving import commit_request, new_id, proposal, taken
from tests.ports import free_port

COUNTS = {
    "commit": {"version": 1, "fileName": "f", "timestampMs": 5, "sizeBytes": 9, "data": None},
    "latestVersion": 1,
}


@pytest.mark.parametrize("lost", LOST, ids=repr)
def test_a_commit_whose_answer_is_lost_is_sent_again_as_a_replay(lost: Step) -> None:
    script = Script(lost, answered(COUNTS))
    request = commit_request(new_id(), 1)
    answer = script.owner.commit(request)
    assert isinstance(answer, CommitResponse)
    assert [body["isReplay"] for body in script.bodies] == [False, True]
    first, second = script.bodies
    assert {**first, "isReplay": True} == second
    assert second["commitId"] == request.commit_id
    assert len(script.waits) == 1


@pytest.mark.parametrize("unsent", NEVER_SENT, ids=repr)
def test_a_commit_that_was_never_sent_is_no_replay(unsent: Step) -> None:
    script = Script(unsent, unsent, answered(COUNTS))
    assert isinstance(script.owner.commit(commit_request(new_id(), 1)), CommitResponse)
    assert [body["isReplay"] for body in script.bodies] == [False, False, False]


def _refused() -> httpx.ConnectError:
    error = httpx.ConnectError("[Errno 111] Connection refused")
    error.__cause__ = ConnectionRefusedError(111, "Connection refused")
    return error


def test_a_first_call_to_a_port_where_nobody_listens_fails_immediately() -> None:
    script = Script(_refused())
    with pytest.raises(CommitOwnerUnavailable, match=r"No server listens there\. Start `slackwater serve`") as caught:
        script.owner.tables()
    assert (script.waits, len(script.seen), caught.value.changed_nothing) == ([], 1, True)
    owner = HttpOwner(f"http://127.0.0.1:{free_port()}", timeout_s=60)
    with pytest.raises(CommitOwnerUnavailable, match="No server listens there"):
        owner.tables()
    owner.close()


@pytest.mark.parametrize(("code", "is_final"), [(socket.EAI_NONAME, True), (socket.EAI_AGAIN, False)])
def test_a_first_call_to_a_host_that_nobody_knows_fails_immediately(code: int, is_final: bool) -> None:
    error = httpx.ConnectError("[Errno] name resolution")
    error.__cause__ = socket.gaierror(code, "name resolution")
    script = Script(error, answered({"tables": []}))
    if is_final:
        with pytest.raises(CommitOwnerUnavailable, match=r"No host has this name\. Correct the address"):
            script.owner.tables()
    else:
        assert script.owner.tables() == []
    assert len(script.waits) == (not is_final)


def test_a_server_that_refuses_after_it_has_answered_is_waited_for() -> None:
    script = Script(answered({"tables": []}), _refused(), _refused(), answered({"tables": []}))
    assert script.owner.tables() == []
    assert script.owner.tables() == []
    assert len(script.waits) == 2


def test_once_in_doubt_every_further_attempt_is_a_replay() -> None:
    script = Script(httpx.ReadError("reset"), httpx.ConnectError("refused"), answered(COUNTS))
    script.owner.commit(commit_request(new_id(), 1))
    assert [body["isReplay"] for body in script.bodies] == [False, True, True]


def test_a_replay_stays_a_replay() -> None:
    script = Script(answered(COUNTS))
    script.owner.commit(commit_request(new_id(), 1, is_replay=True))
    assert script.bodies[0]["isReplay"] is True


@pytest.mark.parametrize("lost", LOST, ids=repr)
def test_a_commit_that_is_never_answered_is_an_unknown_outcome(lost: Step) -> None:
    script = Script(lost)
    with pytest.raises(CommitUnknown):
        script.owner.commit(commit_request(new_id(), 1))
    assert len(script.seen) > 2
    assert sum(script.waits) < 30


@pytest.mark.parametrize("unsent", NEVER_SENT, ids=repr)
def test_an_owner_that_cannot_be_reached_is_unavailable_and_nothing_was_changed(unsent: Step) -> None:
    script = Script(unsent)
    with pytest.raises(CommitOwnerUnavailable, match="cannot be reached"):
        script.owner.commit(commit_request(new_id(), 1))
    assert len(script.seen) > 2


def test_a_replay_of_an_earlier_process_that_is_not_answered_stays_unknown() -> None:
    with pytest.raises(CommitUnknown):
        Script(httpx.ConnectError("refused")).owner.commit(commit_request(new_id(), 1, is_replay=True))


@pytest.mark.parametrize(
    "refusal",
    [
        failed(NotAuthorized("revoked")),
        failed(CommitOwnerBusy("full")),
        failed(CommitOwnerUnavailable("database")),
        answered(error_to_json(InvalidArgument("too large")), 413),
        httpx.Response(401),
        httpx.Response(404, text="not here"),
        httpx.Response(302, headers={"Location": "https://elsewhere"}),
    ],
    ids=repr,
)
def test_a_refusal_does_not_say_what_became_of_an_attempt_before_it(refusal: httpx.Response) -> None:
    with pytest.raises(CommitUnknown):
        Script(httpx.ReadError("reset"), refusal).owner.commit(commit_request(new_id(), 1))


@pytest.mark.parametrize(
    "error", [InvalidArgument("v0"), ProtocolChangedException("gone"), TableNotFound("t"), CommitFailed("store")]
)
@pytest.mark.parametrize("before", [[], [httpx.ReadError("reset")]])
def test_what_the_owner_decides_is_raised_at_once(error: SlackwaterError, before: list[Step]) -> None:
    script = Script(*before, failed(error))
    with pytest.raises(type(error), match=str(error)) as raised:
        script.owner.commit(commit_request(new_id(), 1))
    assert type(raised.value) is type(error)
    assert len(script.seen) == len(before) + 1


@pytest.mark.parametrize("call", ["commit", "release"])
def test_a_conflict_is_an_answer(call: str) -> None:
    script = Script(answered({"latestVersion": 7}, 409))
    assert getattr(script.owner, call)(commit_request(new_id(), 1)) == CommitConflict(7)


def test_a_take_that_is_lost_is_proposed_again_word_for_word() -> None:
    script = Script(httpx.ReadError("reset"), answered(COUNTS))
    assert isinstance(script.owner.take(proposal("flights")), CommitResponse)
    assert script.seen[0].content == script.seen[1].content


def test_a_take_that_is_never_answered_is_an_unknown_outcome() -> None:
    with pytest.raises(CommitUnknown):
        Script(httpx.ReadTimeout("slow")).owner.take(proposal("flights"))


def test_a_release_that_is_lost_is_a_replay() -> None:
    script = Script(httpx.ReadError("reset"), answered(COUNTS))
    script.owner.release(commit_request(new_id(), 1))
    assert [body["isReplay"] for body in script.bodies] == [False, True]


@pytest.mark.parametrize("lost", [*LOST[:10], *NEVER_SENT], ids=repr)
def test_questions_and_backfills_are_asked_again_and_then_the_owner_is_unavailable(lost: Step) -> None:
    table_id = new_id()
    calls: list[tuple[Callable[[HttpOwner], Any], Any, Any]] = [
        (lambda owner: owner.tables(), {"tables": []}, []),
        (lambda owner: owner.get_commits(table_id, 3).latest_version, {"commits": [], "latestVersion": 4}, 4),
        (lambda owner: owner.backfill_to_version(table_id), {"version": 4}, 4),
        (lambda owner: owner.repair(), {"done": ["x"]}, ["x"]),
    ]
    for call, value, expected in calls:
        assert call(Script(lost, answered(value)).owner) == expected
        with pytest.raises(CommitOwnerUnavailable):
            call(Script(lost).owner)


@pytest.mark.parametrize(
    ("asked", "waited"), [("2", 2.0), ("0", 0.05), ("3600", LONGEST_ASKED_WAIT_S), ("soon", 1.0), ("", 1.0)]
)
def test_a_busy_owner_says_how_long_to_wait_within_reason(asked: str, waited: float) -> None:
    script = Script(failed(CommitOwnerBusy("full"), **{"Retry-After": asked}), answered(COUNTS))
    assert isinstance(script.owner.commit(commit_request(new_id(), 1)), CommitResponse)
    assert script.waits == [waited]
    assert script.bodies[1]["isReplay"] is False


@pytest.mark.parametrize("busy", [failed(CommitOwnerBusy("full")), httpx.Response(429)], ids=repr)
def test_an_owner_that_stays_busy_is_busy(busy: httpx.Response) -> None:
    script = Script(busy)
    with pytest.raises(CommitOwnerBusy):
        script.owner.commit(commit_request(new_id(), 1))
    assert sum(script.waits) <= 30


def test_all_attempts_together_keep_to_the_time_that_was_given() -> None:
    script = Script(httpx.ReadTimeout("slow"), timeout_s=9.0)
    started = script.now
    with pytest.raises(CommitUnknown):
        script.owner.commit(commit_request(new_id(), 1))
    assert len(script.seen) >= 3
    assert script.now - started <= 9.0 + 1.0


def test_waits_grow_and_end() -> None:
    script = Script(httpx.ConnectError("refused"))
    with pytest.raises(CommitOwnerUnavailable):
        script.owner.tables()
    assert script.waits[:7] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0]
    assert max(script.waits) == 2.0


def test_a_certificate_that_is_not_trusted_is_said_at_once() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        try:
            raise ssl.SSLCertVerificationError("self-signed certificate")
        except ssl.SSLError as error:
            raise httpx.ConnectError("certificate verify failed") from error

    script = Script(refuse)
    with pytest.raises(CommitOwnerUnavailable, match="certificate verify failed"):
        script.owner.tables()
    assert len(script.seen) == 1


@pytest.mark.parametrize(
    "answer", [httpx.Response(404, text="no"), httpx.Response(301, headers={"Location": "http://x"})]
)
def test_an_address_that_is_no_commit_owner_is_said_at_once_and_redirects_are_not_followed(
    answer: httpx.Response,
) -> None:
    script = Script(answer)
    with pytest.raises(CommitOwnerUnavailable, match="Use the address"):
        script.owner.tables()
    assert len(script.seen) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_a_proxy_that_wants_another_token_is_not_authorized(status: int) -> None:
    with pytest.raises(NotAuthorized):
        Script(httpx.Response(status, text="no")).owner.tables()


@pytest.mark.parametrize("found", [{}, {"tables": [{}]}, {"tables": None}])
def test_an_answer_of_another_shape_is_no_answer(found: object) -> None:
    with pytest.raises(CommitOwnerUnavailable, match="Compare the versions"):
        Script(answered(found)).owner.tables()


@pytest.mark.parametrize(
    ("found", "status"), [({}, 200), ({"commit": {}, "latestVersion": 1}, 200), ({"latestVersion": "x"}, 409)]
)
def test_an_answer_of_another_shape_leaves_a_commit_unknown(found: object, status: int) -> None:
    with pytest.raises(CommitUnknown, match="is not valid"):
        Script(answered(found, status)).owner.commit(commit_request(new_id(), 1))


def test_the_path_of_the_url_the_token_and_the_query_are_sent() -> None:
    script = Script(answered({"commits": [], "latestVersion": -1}))
    table_id = new_id()
    script.owner.get_commits(table_id, 3, 9, with_data=True)
    sent = script.seen[0]
    assert str(sent.url) == (
        f"https://owner.example:8443/lake/v1/tables/{table_id}/commits?startVersion=3&endVersion=9&withData=true"
    )
    assert sent.headers["Authorization"] == f"Bearer {TOKEN}"


def test_the_owner_is_asked_who_it_is_only_once() -> None:
    script = Script(answered({"ownerId": "me", "apiVersion": 1}))
    assert script.owner.owner_id == script.owner.owner_id == "me"
    assert len(script.seen) == 1


def test_the_token_stands_in_no_error_no_representation_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    script = Script(httpx.ReadError("reset"))
    with pytest.raises(CommitUnknown) as raised:
        script.owner.commit(commit_request(new_id(), 1))
    chain: BaseException | None = raised.value
    while chain is not None:
        assert TOKEN not in repr(chain)
        chain = chain.__cause__ or chain.__context__
    assert TOKEN not in repr(script.owner)
    assert TOKEN not in caplog.text
    assert script.owner.endpoint == "https://owner.example:8443/lake"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "owner.example",
        "ftp://owner.example",
        "file:///lake",
        "https://",
        "https://user:hunter2@owner.example",
        "https://owner.example?token=hunter2",
        "https://owner.example#hunter2",
        "https://[::1",
    ],
)
def test_a_url_that_is_none_or_holds_a_secret_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        HttpOwner(url)
    assert "hunter2" not in str(raised.value)


def test_a_token_does_not_travel_in_the_clear_unless_that_is_allowed() -> None:
    with pytest.raises(InvalidArgument, match="allow_http=True"):
        HttpOwner("http://owner.example", TOKEN)
    HttpOwner("http://owner.example", TOKEN, allow_http=True).close()
    HttpOwner("http://owner.example").close()
    for host in ("127.0.0.1", "localhost", "[::1]"):
        HttpOwner(f"http://{host}:8080", TOKEN).close()


@pytest.mark.parametrize("token", ["", "a b", "a\r\nX-Evil: 1", "ü"])
def test_a_token_that_no_header_can_hold_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(InvalidArgument, match="the token is empty or contains") as raised:
        HttpOwner("https://owner.example", token)
    assert not token or token not in str(raised.value)


@pytest.mark.parametrize("timeout_s", [0, -1.0, float("nan")])
def test_a_timeout_that_is_none_is_refused(timeout_s: float) -> None:
    with pytest.raises(InvalidArgument, match="timeout"):
        HttpOwner("https://owner.example", TOKEN, timeout_s)


@pytest.mark.parametrize(
    "call",
    [
        lambda owner: owner.commit(commit_request("../tables", 1)),
        lambda owner: owner.commit(commit_request(new_id(), -1)),
        lambda owner: owner.commit(replace(commit_request(new_id(), 1), commit_id="x")),
        lambda owner: owner.get_commits("x", 0),
        lambda owner: owner.get_commits(new_id(), -1),
        lambda owner: owner.get_commits(new_id(), 0, -2),
        lambda owner: owner.backfill_to_version(new_id(), 2**63),
        lambda owner: owner.recent_commits(1001),
        lambda owner: owner.table("../commits"),
        lambda owner: owner.repair("x"),
        lambda owner: owner.take(replace(proposal("flights"), name="a/b")),
        lambda owner: owner.take(replace(proposal("flights"), location=cast("str", b"bytes"))),
    ],
)
def test_what_is_no_request_is_not_sent(call: Callable[[HttpOwner], object]) -> None:
    script = Script(answered({}))
    with pytest.raises(InvalidArgument):
        call(script.owner)
    assert script.seen == []


def test_a_given_client_is_not_closed() -> None:
    client = httpx.Client(transport=httpx.MockTransport(lambda _: answered({"tables": []})))
    owner = HttpOwner("https://owner.example", TOKEN, client=client)
    owner.close()
    assert owner.tables() == []


def test_a_lost_answer_of_a_commit_that_counts_counts_once() -> None:
    memory = MemoryOwner()
    table_id = taken(memory)

    def lose(request: httpx.Request) -> httpx.Response:
        carry_out(request)
        raise httpx.ReadError("reset")

    def carry_out(request: httpx.Request) -> httpx.Response:
        body = orjson.loads(request.content)
        asked = commit_request(table_id, body["version"], commit_id=body["commitId"], actions=body["actions"])
        answer = memory.commit(asked)
        assert isinstance(answer, CommitResponse)
        return answered(answer.to_json())

    answer = Script(lose, carry_out).owner.commit(commit_request(table_id, 1))
    assert isinstance(answer, CommitResponse)
    assert memory.table("flights").ratified_version == 1
