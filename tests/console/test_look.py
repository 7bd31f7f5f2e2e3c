"""Colours have enough contrast, in the light and in the dark: computed as WCAG 2.2 says, from what the pages are given."""

from __future__ import annotations

import re

import pytest

from headrace.console import look


def colours(dark: bool) -> dict[str, str]:
    light, night = (re.findall(r"(--[a-z0-9-]+): (#[0-9a-f]{6})", block) for block in (look._LIGHT, look._DARK))
    return dict(light) | (dict(night) if dark else {})


def luminance(colour: str) -> float:
    """WCAG 2.2, "relative luminance"."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


SURFACES = ("--hr-ground", "--hr-card", "--hr-hover")
TEXTS = ("--hr-ink", "--hr-soft", "--q-primary", "--q-negative", "--q-positive", "--q-warning", "--q-info")
FILLED = ("--hr-fill", "--hr-fill-negative", "--hr-fill-positive", "--hr-bar")
BADGES = ("good", "bad", "middling", "plain")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_can_be_read_on_every_surface(dark: bool) -> None:
    given = colours(dark)
    low = {(text, on): contrast(given[text], given[on]) for text in TEXTS for on in SURFACES}
    low |= {("--hr-on-fill", on): contrast(given["--hr-on-fill"], given[on]) for on in FILLED}
    low |= {(each, each): contrast(given[f"--hr-{each}-ink"], given[f"--hr-{each}"]) for each in BADGES}
    assert {pair: found for pair, found in low.items() if found < 4.5} == {}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_lines_and_marks_can_be_seen(dark: bool) -> None:
    given = colours(dark)
    names = [f"--hr-{number}" for number in range(1, look.COLOURS + 1)] + ["--hr-edge"]
    assert {
        name: contrast(given[name], given["--hr-card"]) for name in names if contrast(given[name], given["--hr-card"]) < 3
    } == {}


def test_dark_has_every_colour_that_light_has() -> None:
    light, night = (set(re.findall(r"(--[a-z0-9-]+):", block)) for block in (look._LIGHT, look._DARK))
    assert light == night


def test_the_word_of_a_state_has_its_tone() -> None:
    assert [look.tone(word) for word in ("Stable", "given-up", "PreparingRebalance", "ACTIVE", "something")] == [
        "good",
        "bad",
        "middling",
        "good",
        "plain",
    ]
