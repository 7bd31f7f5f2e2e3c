"""How every page looks: colours, spacing, tables that become cards on a phone. Nothing else names a colour.

Colours are variables of the page, one set for light and one for dark; text has a contrast of at least 4.5 to 1 on each of
the surfaces that it stands on, lines and marks one of 3 to 1 (WCAG 2.2, 1.4.3 and 1.4.11). Charts are drawn as SVG, so they
take the same variables and follow when somebody switches.

    --hr-ground, --hr-card, --hr-bar    surfaces: the page, what lies on it, the bar at the top
    --hr-ink, --hr-soft, --hr-line      text, text beside it, borders
    --hr-1 … --hr-8                     lines of a chart, and what the routing graph is made of
    --q-primary, --q-negative …         Quasar's own, as they are as text; filled with white text on them they are `--hr-fill-…`

Layers (see NiceGUI's page): what stands in none wins over Quasar and Tailwind; against an `!important` of Quasar's only one in
a layer before its own helps, which is `overrides`.
"""

from __future__ import annotations

import re

COLOURS = 8

FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#0a4d68"/>'
    '<path d="M6 11q5-4 10 0t10 0M6 17q5-4 10 0t10 0M6 23q5-4 10 0t10 0" fill="none" stroke="#fff" stroke-width="2.6" '
    'stroke-linecap="round"/></svg>'
)

_LIGHT = """
  --hr-ground: #f4f7f9; --hr-card: #ffffff; --hr-bar: #0a4d68; --hr-hover: #eaf1f5;
  --hr-ink: #15202b; --hr-soft: #4d5c69; --hr-line: #d7e0e6; --hr-edge: #84929d;
  --hr-fill: #0b6e99; --hr-on-fill: #ffffff; --hr-fill-negative: #b3261e; --hr-fill-positive: #1a7f37;
  --q-primary: #0a6a94; --q-secondary: #0a6a94; --q-accent: #b0560a; --q-negative: #b3261e; --q-positive: #17743a;
  --q-warning: #a34d00; --q-info: #0a6a94; --q-dark: #1d1d1d; --q-dark-page: #121212;
  --hr-good: #dff3e4; --hr-good-ink: #14532d; --hr-bad: #fbe3e1; --hr-bad-ink: #8c1d18;
  --hr-middling: #fdecd2; --hr-middling-ink: #7a3b00; --hr-plain: #e5ebef; --hr-plain-ink: #33414c;
  --hr-1: #0a6a94; --hr-2: #b45309; --hr-3: #2e7d32; --hr-4: #7c3aed;
  --hr-5: #be185d; --hr-6: #0f766e; --hr-7: #8a6100; --hr-8: #55636f;
"""
_DARK = """
  --hr-ground: #0f1519; --hr-card: #182127; --hr-bar: #0b2e3d; --hr-hover: #22303a;
  --hr-ink: #e6edf2; --hr-soft: #a7b6c2; --hr-line: #2d3a43; --hr-edge: #74838f;
  --hr-fill: #0b6e99; --hr-on-fill: #ffffff; --hr-fill-negative: #b3261e; --hr-fill-positive: #1a7f37;
  --q-primary: #66c2ea; --q-secondary: #66c2ea; --q-accent: #fbbf6b; --q-negative: #ff9d94; --q-positive: #6ee08b;
  --q-warning: #fbbf24; --q-info: #7dd3fc; --q-dark: #182127; --q-dark-page: #0f1519;
  --hr-good: #14361f; --hr-good-ink: #a6e9b6; --hr-bad: #4a1d1a; --hr-bad-ink: #ffc4be;
  --hr-middling: #43300f; --hr-middling-ink: #fcd9a0; --hr-plain: #2b3943; --hr-plain-ink: #cfdae2;
  --hr-1: #66c2ea; --hr-2: #fbbf6b; --hr-3: #7fd18b; --hr-4: #c0a8fa;
  --hr-5: #f79cbc; --hr-6: #5eead4; --hr-7: #facc15; --hr-8: #a7b6c2;
"""

_PAGE = """
body.body--light, body.body--dark { background: var(--hr-ground); color: var(--hr-ink); }
.q-header { background: var(--hr-bar); }
.q-drawer { background: var(--hr-card); color: var(--hr-ink); }
.q-drawer--bordered { border-color: var(--hr-line); }
.q-card, .q-card--dark { background: var(--hr-card); border: 1px solid var(--hr-line); border-radius: 10px; box-shadow: none; }
.q-menu, .q-dark.q-menu { background: var(--hr-card); color: var(--hr-ink); }
.q-tab-panels, .q-tab-panels--dark { background: transparent; }
.q-tooltip { background: var(--hr-ink); color: var(--hr-card); font-size: .8rem; }
.q-field__label, .q-field__bottom { color: var(--hr-soft); opacity: 1; }
.q-field--float .q-placeholder::placeholder { color: var(--hr-soft); opacity: 1; }
.q-field--outlined .q-field__control:before { border-color: var(--hr-edge); }
.q-field--standard .q-field__control:before { border-color: var(--hr-edge); }
.q-header .q-field__native::placeholder { color: #fff; opacity: .85; }
.q-tab { opacity: 1; }
.q-tabs { border-bottom: 1px solid var(--hr-line); }
.q-tab--inactive { color: var(--hr-soft); opacity: 1; }
.q-tab--active { color: var(--q-primary); }
.q-badge { font-weight: 500; }
.q-btn { font-weight: 500; border-radius: 7px; }
.q-btn, .q-tab { text-transform: none; letter-spacing: 0; }
.q-btn-toggle { border: 1px solid var(--hr-line); }
.q-btn-toggle .q-btn { padding: 2px 12px; }
.q-notification { border-radius: 8px; }
.q-notification__actions { color: inherit; }
.nicegui-error-popup { background: var(--hr-card); color: var(--hr-ink); }
@layer components {
  .nicegui-link { color: var(--q-primary); text-decoration-line: none; }
  .nicegui-link:hover { text-decoration-line: underline; opacity: 1; }
}
@layer overrides {
  .bg-primary { background: var(--hr-fill) !important; }
  .bg-negative { background: var(--hr-fill-negative) !important; }
  .bg-positive { background: var(--hr-fill-positive) !important; }
  .bg-warning { background: #f2c037 !important; }
  .bg-info { background: #7dd3fc !important; }
  .q-notification .text-primary { color: inherit !important; }
}

/* What has the focus of the keyboard can be seen, wherever it is. */
:focus-visible { outline: 2px solid var(--q-primary); outline-offset: 2px; }
.q-header :focus-visible { outline-color: #fff; }
.q-field__native:focus-visible, .q-field__input:focus-visible, .q-dialog__inner:focus-visible,
.nicegui-layout:focus-visible { outline: none; }
.q-field--focused .q-field__control { outline: 2px solid var(--q-primary); outline-offset: 1px; border-radius: 6px; }
.q-header .q-field--focused .q-field__control { outline-color: #fff; border-radius: 28px; }

/* Words of ours */
.headrace-soft { color: var(--hr-soft); }
.headrace-line { border-bottom: 1px solid var(--hr-line); }
.headrace-nav { color: var(--hr-ink); border-radius: 7px; }
.headrace-nav:hover { background: var(--hr-hover); }
.headrace-nav[aria-current] { background: var(--hr-fill); color: #fff; }
.headrace-box { border: 1px solid var(--hr-line); border-radius: 7px; background: var(--hr-card); }
.headrace-state { display: inline-block; padding: 1px 8px; border-radius: 999px; font-size: .8rem; font-weight: 500;
  line-height: 1.4; background: var(--hr-plain); color: var(--hr-plain-ink); }
.headrace-state[data-tone=good] { background: var(--hr-good); color: var(--hr-good-ink); }
.headrace-state[data-tone=bad] { background: var(--hr-bad); color: var(--hr-bad-ink); }
.headrace-state[data-tone=middling] { background: var(--hr-middling); color: var(--hr-middling-ink); }
.headrace-banner { background: var(--hr-middling); color: var(--hr-middling-ink); border-radius: 8px; padding: 8px 12px; }
.headrace-figure { font-size: 1.5rem; line-height: 1.2; font-variant-numeric: tabular-nums; letter-spacing: -.01em; }
.headrace-keys { background: var(--hr-card); color: var(--hr-ink); border: 1px solid var(--hr-line); border-radius: 10px;
  padding: 20px 24px; max-width: min(26rem, calc(100vw - 32px)); margin: auto; }
.headrace-keys::backdrop { background: rgb(0 0 0 / .5); }
.headrace-keys table { border-spacing: 0 6px; border-collapse: separate; }
.headrace-keys kbd { border: 1px solid var(--hr-edge); border-radius: 4px; padding: 0 6px; margin-right: 4px; }
.headrace-keys td:first-child { white-space: nowrap; padding-right: 16px; }

/* Tables */
.q-table__card, .q-table--dark { background: var(--hr-card); color: var(--hr-ink); border-radius: 10px; }
.q-table--bordered { border: 1px solid var(--hr-line); }
.q-table__title { font-size: 1rem; font-weight: 500; }
.q-table thead th { font-size: .75rem; font-weight: 600; color: var(--hr-soft); opacity: 1; vertical-align: bottom; }
.q-table thead, .q-table tr, .q-table th, .q-table td { border-color: var(--hr-line); }
.q-table tbody td { font-size: .85rem; font-variant-numeric: tabular-nums; }
.q-table tbody tr:hover { background: var(--hr-hover); }
.q-table tbody td:before { background: transparent; }
.q-table td.text-left:not(:first-child), .q-table th.text-left:not(:first-child) { padding-left: 20px; }
.headrace-clamp { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2; overflow: hidden; }
.headrace-opens tbody tr { cursor: pointer; }
.headrace-opens tbody a, .headrace-opens tbody .headrace-open { color: var(--q-primary); font-weight: 500; text-align: inherit;
  text-decoration: none; overflow-wrap: inherit; cursor: pointer; background: none; border: 0; padding: 0; }
.headrace-opens tbody a:hover, .headrace-opens tbody .headrace-open:hover { text-decoration: underline; }
"""

# A row is a card of names and values. The names are variables of the table, see `parts.tables.named`.
_PHONE = """
@media (max-width: 599px) {
  .q-dialog__inner--minimized { padding: 10px; }
  .q-dialog__inner--minimized > .q-card { max-height: calc(100vh - 20px); width: 100%; }
  .headrace-cards table, .headrace-cards tbody { display: block; width: 100%; }
  .headrace-cards thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .headrace-cards tbody tr { display: block; height: auto; padding: 8px 12px; border-bottom: 1px solid var(--hr-line); }
  .headrace-cards tbody tr:last-child { border-bottom: 0; }
  .headrace-cards tbody td { display: flex; gap: 16px; justify-content: space-between; height: auto; padding: 2px 0;
    border: 0; text-align: right; min-width: 0; }
  .headrace-cards tbody td.text-left:not(:first-child) { padding-left: 0; }
  .headrace-cards tbody td:empty, .headrace-cards tbody td:has(> .headrace-clamp:empty) { display: none; }
  .headrace-cards tbody td:before { position: static; color: var(--hr-soft); flex: none; text-align: left; max-width: 45%; }
  .headrace-cards tbody td:first-child { font-size: .95rem; }
  @layer overrides { .headrace-cards tbody td { max-width: none !important; white-space: normal !important; } }
  NAMES
}
"""


_QUASARS = re.compile(r"(--q-[a-z-]+: [^;]+);")  # which it also writes into the body's own style


def css(dark: bool | None) -> str:
    """For the head of a page. `dark` is None where the browser follows its system."""
    names = "\n".join(
        f"  .headrace-cards tbody td:nth-child({number}):before {{ content: var(--name-{number}, ''); }}"
        for number in range(1, MOST_COLUMNS + 1)
    )
    # The ground before Quasar has said light or dark: a dark page must not flash.
    early = "html { background: #0f1519; }"
    ground = early if dark else f"@media (prefers-color-scheme: dark) {{ {early} }}" if dark is None else ""
    light, night = (_QUASARS.sub(r"\1 !important;", each) for each in (_LIGHT, _DARK))
    return f"<style>{ground}\nbody {{{light}}}\nbody.body--dark {{{night}}}\n{_PAGE}{_PHONE.replace('NAMES', names)}</style>"


MOST_COLUMNS = 16  # of a table that becomes cards; further ones have no name there


def series(number: int) -> str:
    """The colour of so manieth line of a chart."""
    return f"var(--hr-{number % COLOURS + 1})"


def tone(state: str) -> str:
    """`good`, `bad`, `middling` or `plain`: what colour the word of a state has."""
    word = state.lower()
    return "good" if word in _GOOD else "bad" if word in _BAD else "middling" if word in _MIDDLING else "plain"


_GOOD = {"running", "active", "delivered", "passed", "ready", "finished", "open", "stable", "ok"}
_BAD = {"disabled", "failed", "gone", "given-up", "killed", "error", "critical", "dead", "unavailable"}
_MIDDLING = {
    "blocked",
    "waiting",
    "retrying",
    "half-open",
    "warning",
    "updating",
    "preparingrebalance",
    "completingrebalance",
    "assigning",
    "reconciling",
    "silent",
}
