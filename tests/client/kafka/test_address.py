import pytest

from headrace.client.kafka.address import Address, BadAddress, parse_addresses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9093", [("localhost", 9093)]),
        ("localhost", [("localhost", 9092)]),
        ("a:1, b:2 ,", [("a", 1), ("b", 2)]),
        ("[::1]:9094", [("::1", 9094)]),
        ("[::1]", [("::1", 9092)]),
        ("kafka://a:1", [("a", 1)]),
    ],
)
def test_addresses_as_people_write_them(text: str, expected: list[tuple[str, int]]) -> None:
    assert parse_addresses(text) == expected


@pytest.mark.parametrize("text", ["", " , ", ":9092", "a:b", "a:0", "a:65536", "::1", "[::1", "[::1]9092", "a:-1", "a:٣"])
def test_what_is_not_an_address_is_refused(text: str) -> None:
    with pytest.raises(BadAddress):
        parse_addresses(text)


def test_an_ipv6_address_is_printed_in_brackets() -> None:
    assert str(Address("::1", 1)) == "[::1]:1"
