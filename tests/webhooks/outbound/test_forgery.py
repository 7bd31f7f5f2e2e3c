"""Server-side request forgery is closed: what is refused is refused before a packet leaves. The network is watched for that."""

from __future__ import annotations

import asyncio
import ipaddress
import re

import pytest
from tests.webhooks.outbound.conftest import OK, PUBLIC, Names, Watched, endpoint
from tests.webhooks.outbound.test_addresses import NEVER, PRIVATE

from headrace.webhooks.outbound import AllowList, Answer, Outbound, Refused, check_url
from headrace.webhooks.outbound.addresses import plain

EVERYTHING = ["0.0.0.0/0", "::/0", "*.example", "localhost"]


def post(client: Outbound, url: str, allow: tuple[str, ...] = ()) -> Answer:
    async def once() -> Answer:
        try:
            return await client.post(check_url(url), [], b"{}", timeout_s=5, allow=AllowList.of(allow))
        finally:
            client.close()

    return asyncio.run(once())


def refused(url: str, names: Names | None = None, allow: tuple[str, ...] = (), route: tuple[str, ...] = ()) -> str:
    """Why, after no connection was tried."""
    network = Watched()
    client = Outbound(resolver=names or Names(), allow=allow, network=network)
    with pytest.raises(Refused) as caught:
        post(client, url, route)
    assert network.connected == []
    return caught.value.reason


@pytest.mark.parametrize("address", PRIVATE + NEVER)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_address_that_is_not_public_is_refused_when_it_stands_in_the_url(address, scheme):
    host = f"[{address}]" if ":" in address else address
    refused(f"{scheme}://{host}/hook")
    refused(f"{scheme}://{host}:8443/hook")


@pytest.mark.parametrize("address", PRIVATE + NEVER)
def test_an_address_that_is_not_public_is_refused_when_a_name_leads_there(address):
    names = Names().set("hook.example", address)
    assert str(plain(ipaddress.ip_address(address))) in refused("https://hook.example/", names)
    assert names.asked == ["hook.example"]


@pytest.mark.parametrize("address", NEVER)
def test_metadata_and_link_local_addresses_are_refused_whatever_is_allowed(address):
    host = f"[{address}]" if ":" in address else address
    assert "metadata" in refused(f"http://{host}/latest/meta-data/", allow=(*EVERYTHING, f"{host}:80"))
    names = Names().set("hook.example", address)
    assert "metadata" in refused("http://hook.example/", names, allow=(*EVERYTHING, "hook.example"))


@pytest.mark.parametrize("name", ["metadata.google.internal", "METADATA.google.internal.", "metadata", "instance-data"])
def test_the_names_of_metadata_services_are_not_even_resolved(name):
    names = Names()
    refused(f"http://{name}/computeMetadata/v1/", names, allow=(*EVERYTHING, name))
    assert names.asked == []


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST.", "foo.localhost", "a.b.localhost"])
def test_localhost_is_loopback_and_nobody_is_asked(name):
    names = Names()
    assert "127.0.0.1" in refused(f"http://{name}:8080/", names)
    assert names.asked == []


@pytest.mark.parametrize(
    "answer", ["93.184.216.34 10.0.0.1", "10.0.0.1 93.184.216.34", "2606:4700::1111 ::1", "8.8.8.8 fe80::1"]
)
def test_a_name_with_one_address_inside_is_refused_as_a_whole(answer):
    refused("https://mixed.example/", Names().set("mixed.example", answer))


def test_a_name_that_leads_inside_the_second_time_is_refused_then():
    """Rebinding: the first answer is public, the next one is not. The first connection is not there any more."""

    async def run() -> None:
        async with endpoint(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")) as port:
            names = Names().set("rebind.example", PUBLIC, "127.0.0.1")
            network = Watched(port)
            client = Outbound(resolver=names, network=network)
            url = check_url("http://rebind.example/")
            assert (await client.post(url, [], b"", timeout_s=5)).address == PUBLIC
            with pytest.raises(Refused, match=re.escape("127.0.0.1")):
                await client.post(url, [], b"", timeout_s=5)
            assert network.connected == [(PUBLIC, 80, None)]
            assert names.asked == ["rebind.example"] * 2

    asyncio.run(run())


def test_between_the_check_and_the_connection_a_name_is_not_resolved_again():
    """A race of check and use: whoever resolves a second time gets loopback. Nobody does: the network is given the address."""

    async def run() -> None:
        async with endpoint() as port:
            names = Names().set("race.example", PUBLIC, "127.0.0.1")
            network = Watched(port)
            client = Outbound(resolver=names, network=network)
            await client.post(check_url("http://race.example/"), [], b"", timeout_s=5)
            assert network.connected == [(PUBLIC, 80, None)]
            assert names.asked == ["race.example"]
            client.close()

    asyncio.run(run())


def test_an_open_connection_is_used_again_and_stays_with_the_address_that_was_checked():
    async def run() -> None:
        async with endpoint() as port:
            names = Names().set("keep.example", PUBLIC, "127.0.0.1").set("other.example", PUBLIC)
            network = Watched(port)
            client = Outbound(resolver=names, network=network)
            for _ in range(3):
                answer = await client.post(check_url("http://keep.example/"), [], b"", timeout_s=5)
                assert answer.address == PUBLIC
            assert network.connected == [(PUBLIC, 80, None)]
            await client.post(check_url("http://other.example/"), [], b"", timeout_s=5)  # the same address, another name
            assert network.connected == [(PUBLIC, 80, None)] * 2
            client.close()

    asyncio.run(run())


def test_an_open_connection_is_not_used_by_a_route_that_may_not_have_opened_it():
    async def run() -> None:
        async with endpoint() as port:
            client = Outbound(resolver=Names(), allow=["127.0.0.1"])
            url = check_url(f"http://127.0.0.1:{port}/")
            await client.post(url, [], b"", timeout_s=5)
            assert client.idle == 1
            with pytest.raises(Refused):
                await client.post(url, [], b"", timeout_s=5, allow=AllowList.of(["10.0.0.0/8"]))
            client.close()

    asyncio.run(run())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("location", ["http://169.254.169.254/", "http://127.0.0.1:1/", "//[::1]/", "/elsewhere"])
def test_a_redirect_is_an_answer_that_nobody_follows(status, location):
    async def run() -> None:
        answer = f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()
        async with endpoint(answer) as port:
            network = Watched(port)
            client = Outbound(resolver=Names().set("hook.example", PUBLIC), network=network)
            found = await client.post(check_url("http://hook.example/"), [], b"", timeout_s=5)
            assert found.status == status
            assert network.connected == [(PUBLIC, 80, None)]
            client.close()

    asyncio.run(run())


@pytest.mark.parametrize("port", [22, 25, 53, 110, 143, 465, 587, 6000, 6667])
def test_ports_of_other_protocols_are_refused_unless_the_operator_names_them(port):
    names = Names().set("mail.example", PUBLIC)
    assert "protocol" in refused(f"http://mail.example:{port}/", names)
    assert "protocol" in refused(f"http://mail.example:{port}/", names, allow=("mail.example",))
    assert "protocol" in refused(f"http://mail.example:{port}/", names, allow=(f"mail.example:{port + 1}",))
    network = Watched()
    with pytest.raises(AssertionError, match="a packet would have gone"):
        post(Outbound(resolver=names, network=network, allow=[f"mail.example:{port}"]), f"http://mail.example:{port}/")


def test_proxies_of_the_environment_are_not_used(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")

    async def run() -> None:
        async with endpoint() as port:
            network = Watched(port)
            client = Outbound(resolver=Names().set("hook.example", PUBLIC), network=network)
            assert (await client.post(check_url("http://hook.example/"), [], b"", timeout_s=5)).status == 200
            assert network.connected == [(PUBLIC, 80, None)]
            client.close()

    asyncio.run(run())


# --- what is allowed


def reached(url: str, names: Names, allow: tuple[str, ...], route: tuple[str, ...] = ()) -> list[str]:
    network = Watched()
    with pytest.raises(AssertionError, match="a packet would have gone"):
        post(Outbound(resolver=names, allow=allow, network=network), url, route)
    return [address for address, _, _ in network.connected]


def test_the_operator_allows_by_name_by_network_and_by_port():
    names = Names().set("hook.inside.example", "10.1.2.3").set("deep.hook.inside.example", "10.1.2.3")
    url = "https://hook.inside.example/"
    for allow in (
        ["hook.inside.example"],
        ["HOOK.inside.example."],
        ["*.inside.example"],
        ["10.0.0.0/8"],
        ["10.1.2.3"],
        ["10.1.2.3:443"],
        ["hook.inside.example:443"],
        ["192.168.0.0/16", " 10.1.2.0/24 "],
    ):
        assert reached(url, names, tuple(allow)) == ["10.1.2.3"], allow
    for allow in (
        [],
        ["inside.example"],
        ["ook.inside.example"],
        ["*.hook.inside.example"],
        ["10.1.2.4"],
        ["10.1.2.3:8443"],
        ["hook.inside.example:80"],
        ["192.168.0.0/16"],
        ["::/0"],
    ):
        assert "headrace.webhooks.allow" in refused(url, names, tuple(allow))


def test_ipv6_is_allowed_by_network_and_by_port():
    names = Names().set("six.example", "fd12::1")
    for allow in ("fd12::/16", "fd12::1", "[fd12::1]", "[fd12::1]:443", "[fd12::/16]:443"):
        assert reached("https://six.example/", names, (allow,)) == ["fd12::1"]
        assert reached("https://[fd12::1]/", names, (allow,)) == ["fd12::1"]
    refused("https://six.example/", names, allow=("[fd12::1]:80",))


def test_an_ipv4_address_in_an_ipv6_one_is_allowed_and_connected_to_as_ipv4():
    names = Names().set("mapped.example", "::ffff:10.1.2.3")
    assert reached("https://mapped.example/", names, ("10.0.0.0/8",)) == ["10.1.2.3"]
    refused("https://mapped.example/", names, allow=("::/0",))


def test_a_route_can_narrow_what_the_operator_allows_and_open_nothing():
    names = Names().set("a.example", "10.0.0.1").set("b.example", "10.0.0.2").set("open.example", PUBLIC)
    assert reached("http://a.example/", names, ("10.0.0.0/8",), ("a.example",)) == ["10.0.0.1"]
    assert "route" in refused("http://b.example/", names, ("10.0.0.0/8",), ("a.example",))
    assert "headrace.webhooks.allow" in refused("http://a.example/", names, (), ("a.example", "0.0.0.0/0"))
    assert reached("http://open.example/", names, (), ("a.example",)) == [PUBLIC]


def test_localhost_uses_those_of_its_addresses_that_are_allowed():
    assert reached("http://localhost/", Names(), ("127.0.0.1",)) == ["127.0.0.1"]
    assert reached("http://localhost/", Names(), ("::1",)) == ["::1"]
    assert reached("http://localhost/", Names(), ("localhost",)) == ["127.0.0.1"]


@pytest.mark.parametrize(
    "entry",
    ["10.0.0.1/8", "10.0.0.0/33", "10.0.0", "0x7f.1", "a b", "*", "*.10.0.0.1", "a.example:0", "a:99999", "[::1", "http://a/"],
)
def test_an_entry_that_is_none_is_refused_with_a_sentence(entry):
    with pytest.raises(ValueError, match=re.escape(entry.partition(":")[0])):
        Outbound(allow=[entry])
