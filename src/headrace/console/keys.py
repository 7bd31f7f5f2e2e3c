"""What a page does by itself in the browser: keys, the Enter key in dialogs, numbers at the axes of charts.

    /, Ctrl-K      to the search          g, then a letter   to a page         ?   shows the keys
    Enter          in a field of a dialog: its button that is filled, unless that destroys something

`headrace.size` and `headrace.count` write a number at an axis as the rest of the page does (see `parts.values`).
"""

from __future__ import annotations

import json

PAGES = {
    "o": ("/", "Overview"),
    "t": ("/topics", "Topics"),
    "g": ("/groups", "Groups"),
    "q": ("/queues", "Queues"),
    "d": ("/dead-letters", "Dead letters"),
    "r": ("/routes", "Routes"),
    "s": ("/streams", "Kinesis streams"),
    "p": ("/pipelines", "Pipelines"),
    "c": ("/connections", "Connections"),
    "h": ("/health", "Health and logs"),
}

_SCRIPT = """
<script>
if (!window.headrace) {
  const pages = PAGES;
  const short = (value, step, units) => {
    let at = 0;
    while (Math.abs(value) >= step && at < units.length - 1) { value /= step; at += 1; }
    return (Number.isInteger(value) || Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(1)) + units[at];
  };
  window.headrace = {
    size: value => short(value, 1000, [" B", " KB", " MB", " GB", " TB"]),
    count: value => short(value, 1000, ["", "k", "M", "G"]),
    help() {
      let shown = document.querySelector(".headrace-keys");
      if (!shown) {
        shown = document.createElement("dialog");
        shown.className = "headrace-keys";
        shown.setAttribute("aria-label", "Keys");
        const rows = [["/", "Ctrl K", "Find"], ["?", "", "These keys"], ["Esc", "", "Close, or leave a field"]];
        for (const [letter, [, name]] of Object.entries(pages)) rows.push(["g", letter, name]);
        const table = document.createElement("table");
        for (const [first, second, name] of rows) {
          const row = table.insertRow(), keys = row.insertCell();
          for (const key of [first, second]) {
            if (key) keys.append(Object.assign(document.createElement("kbd"), {textContent: key}));
          }
          row.insertCell().textContent = name;
        }
        shown.append(table);
        shown.addEventListener("click", event => { if (event.target === shown) shown.close(); });
        document.body.append(shown);
      }
      shown.showModal();
    },
  };
  let before = "";
  document.addEventListener("keydown", event => {
    const target = event.target, field = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable;
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    const asked = document.querySelector(".q-dialog .q-dialog__inner, dialog[open]");
    if ((event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !field && !asked)) {
      event.preventDefault();
      const search = document.querySelector(".headrace-search");
      search?.focus();
      search?.select();
    } else if (event.key === "Escape" && target.classList.contains("headrace-search")) {
      target.blur();
    } else if (event.key === "Enter" && target.tagName === "INPUT" && target.role !== "combobox") {
      const card = target.closest(".q-dialog .q-card");
      const filled = card && [...card.querySelectorAll(".q-btn--unelevated, .q-btn--standard")]
        .filter(button => !button.disabled && !button.classList.contains("bg-negative")).pop();
      if (filled) {
        target.dispatchEvent(new Event("change"));  // what is typed is sent first
        filled.click();
      }
    } else if (plain && !field && !asked) {
      if (before === "g" && pages[event.key]) location.assign(pages[event.key][0]);
      else if (event.key === "?") window.headrace.help();
      before = before === "g" ? "" : event.key;
    }
  });
}
</script>
"""

SCRIPT = _SCRIPT.replace("PAGES", json.dumps(PAGES))
