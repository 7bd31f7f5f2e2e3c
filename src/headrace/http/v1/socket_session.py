"""One WebSocket from its acceptance to its end. Two tasks: one takes messages and does what they ask, one sends.

Whatever is to be sent wakes the sender: answers first, then a page of each subscription in turn. A publish is answered when it
is durable, in the order in which they become so; the next message is looked at meanwhile. Bounds and close codes: see `socket`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any

from headrace.http.problems import Problem
from headrace.http.v1.access import check_topic_access
from headrace.http.v1.errors import problem_of
from headrace.http.v1.keeping import keep_of
from headrace.http.v1.sending import Peer, Stalled
from headrace.http.v1.socket_messages import (
    FromClient,
    MoreCredit,
    NotJson,
    Ping,
    Publish,
    Subscribe,
    Unsubscribe,
    decode_message,
    id_of,
    made,
    made_error,
)
from headrace.http.v1.socket_publishing import publish
from headrace.http.v1.starting import Start
from headrace.http.v1.subscription import Subscription
from headrace.log.errors import LogError, StorageError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from headrace.broker import Broker
    from headrace.broker.traffic import Traffic
    from headrace.broker.vhosts.users import User
    from headrace.http.v1.appending import Appending
    from headrace.http.v1.following import Following

logger = logging.getLogger("headrace.http")

MAX_SUBSCRIPTIONS = 64
MAX_UNANSWERED = 64
MAX_UNANSWERED_BYTES = 8 * 1024 * 1024
MAX_UNSENT_BYTES = 256 * 1024
HEARTBEAT_MS = "headrace.http.heartbeat.ms"
MAX_REASON_BYTES = 123  # RFC 6455, section 5.5

NORMAL, GOING_AWAY, UNSUPPORTED, INVALID, POLICY, INTERNAL, TRY_LATER = 1000, 1001, 1003, 1007, 1008, 1011, 1013


class _End(Exception):
    """Ends the socket with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Session:
    def __init__(
        self,
        broker: Broker,
        following: Following,
        appending: Appending,
        traffic: Traffic,
        user: User,
        topic: str | None,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        self._broker = broker
        self._following = following
        self._appending = appending
        self._user = user
        self._topic = topic
        self._peer = Peer(broker.settings, scope, send)
        self._heartbeat_s = broker.settings.get_int(HEARTBEAT_MS) / 1000
        self._receive = receive
        self._wake = asyncio.Event()  # there may be something to send
        self._room = asyncio.Event()  # another message may be taken
        self._room.set()
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._unanswered = 0
        self._unanswered_bytes = 0
        self._subscriptions: dict[str, Subscription] = {}
        self._went = traffic.bytes_out
        self._publishes = traffic.requests["publish"]
        self._end: tuple[int, str] | None = None
        self._gone = False
        self._sent_s = asyncio.get_running_loop().time()

    def server_ends(self) -> None:
        self._finish(GOING_AWAY, "the server ends")

    async def run(self, start: Start | None) -> None:
        taking: asyncio.Task[None] | None = None
        try:
            if start is not None and self._topic is not None:
                await self._begin(self._topic, self._topic, start, None)
            taking = asyncio.create_task(self._take_all())
            await self._send_all()
            if not self._gone:
                await self._say_goodbye()
        except Stalled:
            self._peer.cut()
        finally:
            if taking is not None:
                taking.cancel()
            for subscription in self._subscriptions.values():
                subscription.close()

    # --- taking

    async def _take_all(self) -> None:
        try:
            while not self._gone and self._end is None:
                await self._room.wait()
                await self._take(await self._receive())
        except _End as end:
            self._finish(end.code, end.reason)
        except Exception:
            logger.exception("an error of ours on a WebSocket")
            self._finish(INTERNAL, "internal error")

    async def _take(self, message: Any) -> None:
        if message["type"] == "websocket.disconnect":
            self._gone = True
            self._wake.set()
            return
        text = message.get("text")
        if text is None:
            raise _End(UNSUPPORTED, "messages are text")
        try:
            asked = decode_message(text)
        except NotJson as error:
            raise _End(INVALID, f"not JSON: {error}") from None
        except Problem as problem:
            self._answer(made_error(problem, id=id_of(text)))
            return
        try:
            await self._do(asked, len(text))
        except StorageError as error:
            raise _End(TRY_LATER, str(error)) from None
        except (Problem, LogError) as error:
            found = problem_of(error)
            assert found is not None
            name = getattr(asked, "subscription", None)
            self._answer(made_error(found, id=getattr(asked, "id", None), subscription=name))

    async def _do(self, asked: FromClient, size: int) -> None:
        if isinstance(asked, Publish):
            await self._publish(asked, size)
        elif isinstance(asked, MoreCredit):
            self._subscription(asked.subscription).add_credit(asked.credit)
        elif isinstance(asked, Ping):
            self._answer(made("pong", id=asked.id))
        elif isinstance(asked, Subscribe):
            topic = self._named_topic(asked.topic)
            start = Start.of(asked.place, asked.position, asked.partition, asked.filter)
            await self._begin(asked.subscription or topic, topic, start, asked.credit)
        else:
            assert isinstance(asked, Unsubscribe)
            subscription = self._subscription(asked.subscription)
            self._leave(subscription)

    async def _begin(self, name: str, topic_name: str, start: Start, credit: int | None) -> None:
        check_topic_access(self._user, "read", topic_name)
        topic = self._broker.topics.get(topic_name)
        if topic is None:
            raise Problem(404, "unknown_topic", f"there is no topic '{topic_name[:250]}'")
        if name in self._subscriptions:
            raise Problem(409, "subscribed", f"there is a subscription '{name}' already")
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise Problem(409, "too_many_subscriptions", f"a socket has at most {MAX_SUBSCRIPTIONS} subscriptions")
        keep = await keep_of(self._broker, topic, start.filter)
        offsets, notices = await start.offsets(topic)
        follower = self._following.follow(topic, offsets, start.partition, self._wake, keep)
        subscription = Subscription(name, follower, credit)
        self._answer(made("subscribed", subscription=name, topic=topic_name, position=follower.position))
        for notice in notices:
            self._answer(subscription.notice(notice))
        self._subscriptions[name] = subscription

    def _subscription(self, name: str | None) -> Subscription:
        found = self._subscriptions.get(name or self._topic or "")
        if found is None:
            raise Problem(404, "unknown_subscription", f"there is no subscription '{name or self._topic or ''}'")
        return found

    def _leave(self, subscription: Subscription) -> None:
        del self._subscriptions[subscription.name]
        subscription.close()
        self._answer(made("unsubscribed", subscription=subscription.name))

    def _named_topic(self, name: str | None) -> str:
        if name is None:
            name = self._topic
        if name is None:
            raise Problem(400, "invalid_message", "a socket for many topics needs the name of one in each message")
        if self._topic is not None and name != self._topic:
            raise Problem(400, "invalid_message", f"this is the socket of topic '{self._topic}'; /v1/socket is for many")
        return name

    async def _publish(self, asked: Publish, size: int) -> None:
        topic = self._named_topic(asked.topic)
        check_topic_access(self._user, "write", topic)
        if self._broker.topics.get(topic) is None:
            check_topic_access(self._user, "configure", topic)  # it is made
        began_s = monotonic()
        stored = await publish(self._broker, self._appending, topic, asked)
        self._unanswered += 1
        self._unanswered_bytes += size

        def synced(error: Exception | None) -> None:
            self._unanswered -= 1
            self._unanswered_bytes -= size
            if error is not None:
                self._finish(TRY_LATER, str(error))
            else:
                self._publishes.add(monotonic() - began_s)
                self._answer(made("published", id=asked.id, events=stored))

        self._broker.log.after_sync(synced)
        self._look_for_room()

    # --- sending

    def _answer(self, message: bytes) -> None:
        self._unsent.append(message)
        self._unsent_bytes += len(message)
        self._look_for_room()
        self._wake.set()

    def _look_for_room(self) -> None:
        if (
            self._unanswered < MAX_UNANSWERED
            and self._unanswered_bytes < MAX_UNANSWERED_BYTES
            and self._unsent_bytes < MAX_UNSENT_BYTES
        ):
            self._room.set()
        else:
            self._room.clear()

    def _finish(self, code: int, reason: str) -> None:
        if self._end is None:
            self._end = (code, reason)
        self._wake.set()

    async def _send_all(self) -> None:
        """Raises Stalled."""
        while not self._gone:
            self._wake.clear()
            while self._unsent and not self._gone:
                message = self._unsent.popleft()
                self._unsent_bytes -= len(message)
                self._look_for_room()
                await self._write(message)
            if self._end is not None:
                return
            busy = False
            for subscription in tuple(self._subscriptions.values()):
                busy = await self._send_of(subscription) or busy
            if busy:
                await asyncio.sleep(0)
            elif not self._unsent:
                await self._wait()

    async def _send_of(self, subscription: Subscription) -> bool:
        """Whether there may be more."""
        try:
            message, more = await subscription.next_message()
        except LogError as error:
            found = problem_of(error)
            assert found is not None
            self._answer(made_error(found, subscription=subscription.name))
            self._leave(subscription)
            return True
        if self._subscriptions.get(subscription.name) is not subscription:
            return True  # it was left while its records were read
        if message is not None:
            self._went[subscription.topic] += len(message)
            await self._write(message)
        if subscription.ended:
            self._leave(subscription)
        return more

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout_at(self._sent_s + self._heartbeat_s):
                await self._wake.wait()
        except TimeoutError:
            self._beat()

    def _beat(self) -> None:
        user = self._broker.vhosts.users.get(self._user.name)
        if user is None or user.permissions != self._user.permissions or user.password_hash != self._user.password_hash:
            self._finish(POLICY, "log in again: the user has changed")
            return
        told = [message for each in self._subscriptions.values() if (message := each.progress()) is not None]
        for message in told or [made("heartbeat")]:
            self._answer(message)

    async def _write(self, message: bytes) -> None:
        self._sent_s = asyncio.get_running_loop().time()
        await self._peer.send({"type": "websocket.send", "text": message.decode()})

    async def _say_goodbye(self) -> None:
        code, reason = self._end or (NORMAL, "")
        text = reason.encode()[:MAX_REASON_BYTES].decode("utf-8", "ignore")
        await self._peer.send({"type": "websocket.close", "code": code, "reason": text})
