"""GET /routes: a page for a browser with every route, its ends, its state, how far it is behind and how fast it goes.

The page holds nothing of the broker: a script of its own asks /v1/routes every two seconds with the login that the browser has,
and writes what it gets as text, never as HTML. It loads nothing from elsewhere, and its Content-Security-Policy lets it load
nothing; it may be framed by nobody. Rates are what was counted between two answers.
"""

from __future__ import annotations

import base64
import hashlib

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 1.5rem; color: #1c2733; background: #fff }
h1 { font-size: 1.3rem; margin: 0 0 .2rem }
p { margin: 0 0 1rem; color: #5a6b7b }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid #dde4ea; vertical-align: top }
th { font-weight: 600; color: #5a6b7b; white-space: nowrap }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
th.number { text-align: right }
td.text { overflow-wrap: anywhere }
code { font: 12px/1.4 ui-monospace, monospace; overflow-wrap: anywhere }
.state { font-weight: 600; white-space: nowrap }
.running { color: #17703c } .blocked { color: #b3261e } .waiting { color: #8a5a00 } .paused, .disabled { color: #5a6b7b }
.error { color: #b3261e; overflow-wrap: anywhere }
@media (prefers-color-scheme: dark) {
  body { color: #dde4ea; background: #14191f } p, th { color: #9aa9b8 } th, td { border-color: #2c3641 }
  .running { color: #5fd38d } .blocked, .error { color: #ff8a80 } .waiting { color: #ffc663 }
}
"""

_SCRIPT = """
'use strict';
const EVERY_MS = 2000;
const rows = document.getElementById('rows');
const status = document.getElementById('status');
let before = new Map(), beforeAt = 0;

function cell(text, kind) {
  const td = document.createElement('td');
  td.textContent = text;
  if (kind) td.className = kind;
  return td;
}

function codeCell(parts) {
  const td = document.createElement('td');
  td.className = 'text';
  for (const part of parts) {
    const code = document.createElement('code');
    code.textContent = part;
    td.append(code, document.createElement('br'));
  }
  return td;
}

function rate(route, now) {
  const known = before.get(route.name);
  if (known === undefined || now <= beforeAt) return '';
  const done = route.delivered + route.replayed;
  return done < known ? '' : ((done - known) * 1000 / (now - beforeAt)).toFixed(1);
}

function shape(route) {
  const parts = [];
  if (route.filter !== null) parts.push(route.filter);
  for (const [part, text] of Object.entries(route.transform || {})) parts.push(part + ' = ' + text);
  return parts;
}

const number = value => value.toLocaleString('en');
const replays = route => route.replay ? 'replays: ' + number(route.replay.left) + ' left' : '';

function row(route, now) {
  const tr = document.createElement('tr');
  const state = cell(route.state, 'state ' + route.state);
  tr.append(
    cell(route.name, 'text'), cell(route.source_label, 'text'), codeCell(shape(route)), cell(route.destination_label, 'text'),
    state, cell(route.group === null ? '' : number(route.lag), 'number'), cell(rate(route, now), 'number'),
    cell(number(route.delivered), 'number'), cell(number(route.filtered), 'number'),
    cell(number(route.dead_lettered + route.skipped), 'number'), cell(number(route.lost), 'number'),
    cell(route.error || replays(route), route.error ? 'error' : 'text'),
  );
  return tr;
}

async function refresh() {
  try {
    const answer = await fetch('/v1/routes', {headers: {accept: 'application/json'}, cache: 'no-store'});
    const told = await answer.json();
    if (!answer.ok) throw new Error(told.detail || 'the server answered ' + answer.status);
    const now = performance.now();
    rows.replaceChildren(...told.routes.map(route => row(route, now)));
    status.textContent = told.routes.length + (told.routes.length === 1 ? ' route' : ' routes');
    before = new Map(told.routes.map(route => [route.name, route.delivered + route.replayed]));
    beforeAt = now;
  } catch (error) {
    status.textContent = 'No answer: ' + error.message;
  }
  setTimeout(refresh, EVERY_MS);
}
refresh();
"""

_PAGE = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Routes · Headrace</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>Routes</h1>
<p id="status" role="status">…</p>
<table>
<thead><tr>
<th>Route</th><th>From</th><th>Filter, transform</th><th>To</th><th>State</th><th class="number">Lag</th>
<th class="number">Events/s</th><th class="number">Delivered</th><th class="number">Filtered</th><th class="number">Failed</th>
<th class="number">Lost</th><th>Error</th>
</tr></thead>
<tbody id="rows"></tbody>
</table>
<script>{_SCRIPT}</script>
</body>
</html>
""".encode()


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


_HEADERS = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": f"default-src 'none'; script-src {_hash(_SCRIPT)}; style-src {_hash(_STYLE)}; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cache-control": "no-cache",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def page() -> Route:
    async def answer(request: Request) -> Response:
        return Response(_PAGE, headers=_HEADERS)

    return Route("/routes", answer, methods=["GET"])
