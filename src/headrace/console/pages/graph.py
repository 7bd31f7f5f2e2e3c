"""How exchanges, queues and topics hang together, drawn: /graph?vhost=…&prefix=…

The server gives a part that can be drawn, beginning with the names that begin with a prefix; what is clicked is opened. The
same is below it as a list, for those who can't see the drawing.
"""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import part
from headrace.console.frame import Page, View
from headrace.console.look import series
from headrace.console.pages.graph_layout import Place, places
from headrace.console.parts.charts import drawn, tooltip
from headrace.console.parts.pieces import table
from headrace.console.parts.states import show_empty

LIMIT = 150
POLL_S = 5.0
MOST_VHOSTS = 500
_KINDS = {
    "exchange": ("Exchange", series(0), "diamond"),
    "queue": ("Queue", series(2), "roundRect"),
    "topic": ("Topic", series(1), "circle"),
    "outside": ("Outside", series(7), "triangle"),
}
_LINES = {"binding": "solid", "alternate": "dashed", "dead-letter": "dotted", "stream": "solid", "route": "solid"}
_COLORS = {"alternate": series(7), "dead-letter": series(4), "stream": series(1), "route": series(3)}
_INK, _SOFT = "var(--hr-ink)", "var(--hr-soft)"


async def graph(view: View) -> None:
    view.title("Routing graph")
    vhosts = [one["name"] for one in (await view.access.get("/api/vhosts"))[:MOST_VHOSTS]]
    wanted = view.query.get("vhost", "/")
    with ui.row().classes("w-full items-center gap-3"):
        vhost = ui.select(sorted({*vhosts, wanted}), value=wanted, label="Virtual host").props("dense outlined").classes("w-40")
        prefix = ui.input("Names begin with", value=view.query.get("prefix", "")).props(
            "dense outlined clearable debounce=300 autocomplete=off"
        )
        more = ui.label("There is more than is drawn: narrow it down by a prefix.").classes("headrace-soft")
    more.visible = False
    with ui.card().classes("w-full p-2 overflow-x-auto").props("tabindex=0") as card:
        chart = drawn(
            _options(),
            "Exchanges, queues and topics with what leads from one to another. The same is in the list below.",
            height="65vh",
            on_point_click=lambda event: _open(view, str(vhost.value), event.data),
        )
        chart.style("min-width: 640px")
    empty = show_empty("Nothing to draw", "headrace exchange declare shop -t topic\nheadrace binding create shop work -k '#'")
    empty.visible = False
    with ui.expansion("As a list").classes("w-full"):
        edges = table([("from", "From", "left"), ("kind", "What", "left"), ("label", "By", "left"), ("to", "To", "left")])
    shown: list[Any] = []

    async def refresh() -> None:
        said = await view.access.get(
            f"/v1/vhosts/{part(str(vhost.value))}/graph", {"prefix": prefix.value or None, "limit": LIMIT}
        )
        more.visible = not said["complete"]
        card.visible, empty.visible = bool(said["nodes"]), not said["nodes"]
        if shown and shown[0] == said:
            return
        shape = _shape(said)
        moved = not shown or _shape(shown[0]) != shape
        shown[:] = [said]
        edges.show([_edge_row(edge) for edge in said["edges"]])
        if moved or any(node["messages"] is not None for node in said["nodes"]):
            drawing = chart.options["series"][0]
            at = places([node["id"] for node in said["nodes"]], [(edge["source"], edge["target"]) for edge in said["edges"]])
            drawing["data"] = [_node(node, at[node["id"]]) for node in said["nodes"]]
            drawing["links"] = [_link(edge) for edge in said["edges"]]
            chart.update()

    async def chosen() -> None:
        view.remember(vhost=vhost.value if vhost.value != "/" else None, prefix=prefix.value)
        await refresh()

    vhost.on_value_change(chosen)
    prefix.on_value_change(chosen)
    view.every(POLL_S, refresh)


def _options() -> dict[str, Any]:
    return {
        "tooltip": {**tooltip("item"), "renderMode": "richText"},
        "legend": {"data": [label for label, _, _ in _KINDS.values()], "top": 0, "textStyle": {"color": _SOFT}},
        "animationDuration": 300,
        "series": [
            {
                "type": "graph",
                "layout": "none",
                "roam": True,
                "categories": [{"name": label, "itemStyle": {"color": color}} for label, color, _ in _KINDS.values()],
                "label": {
                    "show": True,
                    "position": "bottom",
                    "fontSize": 11,
                    "color": _INK,
                    "width": 160,
                    "overflow": "truncate",
                },
                "edgeSymbol": ["none", "arrow"],
                "edgeSymbolSize": 7,
                "edgeLabel": {
                    "show": True,
                    "fontSize": 10,
                    "color": _SOFT,
                    "formatter": "{c}",
                    "width": 120,
                    "overflow": "truncate",
                },
                "lineStyle": {"width": 1.5, "curveness": 0.1, "color": _SOFT, "opacity": 0.8},
                "emphasis": {"disabled": True},
                "data": [],
                "links": [],
            }
        ],
    }


def _shape(said: dict[str, Any]) -> tuple[Any, ...]:
    """What has to be laid out anew when it changes."""
    return [node["id"] for node in said["nodes"]], [(edge["source"], edge["target"]) for edge in said["edges"]]


def _node(node: dict[str, Any], at: Place) -> dict[str, Any]:
    label, color, symbol = _KINDS[node["kind"]]
    text = node["name"] or "(default)"
    if node["messages"]:
        text += f" ({node['messages']:,})"
    return {
        "id": node["id"],
        "name": text,
        "x": at[0],
        "y": at[1],
        "value": f"{label} {node['type']}{' (not there)' if node['missing'] else ''}".strip(),
        "category": list(_KINDS).index(node["kind"]),
        "symbol": symbol,
        "symbolSize": 26,
        "itemStyle": {"color": color, "opacity": 0.4 if node["missing"] else 1},
    }


def _link(edge: dict[str, Any]) -> dict[str, Any]:
    style = {"type": _LINES.get(edge["kind"], "solid")}
    if edge["kind"] in _COLORS:
        style["color"] = _COLORS[edge["kind"]]
    return {"source": edge["source"], "target": edge["target"], "value": _by(edge), "lineStyle": style}


def _by(edge: dict[str, Any]) -> str:
    more = f" … {edge['count']:,} in all" if edge["count"] > 5 else ""
    word = "" if edge["kind"] == "binding" else edge["kind"]
    return " ".join(piece for piece in (word, f"{edge['label']}{more}") if piece)


def _edge_row(edge: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"{edge['source']}\n{edge['target']}\n{edge['kind']}\n{edge['label']}",
        "from": edge["source"].replace(":", " ", 1),
        "kind": edge["kind"],
        "label": _by({**edge, "kind": "binding"}),
        "to": edge["target"].replace(":", " ", 1),
    }


def _open(view: View, vhost: str, data: Any) -> None:
    kind, _, name = str(data.get("id", "") if isinstance(data, dict) else "").partition(":")
    if kind in ("exchange", "queue"):
        view.go(f"/{kind}s/{part(vhost)}/{part(name)}")
    elif kind == "topic":
        view.go(f"/topics/{part(name)}")


PAGES = [Page("/graph", "Routing graph", graph, icon="hub", group="Queues")]
