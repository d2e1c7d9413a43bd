"""How the page of a report looks and behaves: its style and its script, each one text. Pure.

The colours of the parts are seen on both themes, with a contrast of 3 at least, and each has a pattern of its own.
Source of what Open WebUI hears of an embed (`iframe:height`, `input:prompt:submit`): `FullHeightIframe.svelte` and
`Chat.svelte` of Open WebUI 0.12.
"""

from __future__ import annotations

from typing import Final

_LIGHT: Final = (
    "--surface:#fff;--text:#171717;--muted:#676767;--line:#e3e3e3;--track:#ececec;--hover:#f9f9f9;--warning:#b91c1c;"
    "--focus:#2563eb"
)
_DARK: Final = (
    "--surface:#171717;--text:#ececec;--muted:#b4b4b4;--line:#333;--track:#333;--hover:#262626;--warning:#f87171;"
    "--focus:#60a5fa"
)
_THEMES: Final = (
    f":root{{{_LIGHT}}}@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}"
    f":root[data-theme=light]{{{_LIGHT}}}:root[data-theme=dark]{{{_DARK}}}"
)
_RULES: Final = """
*{box-sizing:border-box}
[hidden]{display:none!important}
body{margin:0;padding:1.125rem 1.25rem;border:1px solid var(--line);border-radius:1rem;background:var(--surface);
color:var(--text);font:.875rem/1.5 -apple-system,BlinkMacSystemFont,"Inter",ui-sans-serif,system-ui,"Segoe UI",Roboto,
"Helvetica Neue",Arial,"Noto Sans",sans-serif;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
h1,h2,p,ul{margin:0;padding:0}
h1{font-size:1rem;font-weight:600}
h2{margin:1.5rem 0 .375rem;font-size:.875rem;font-weight:600}
small,.muted,th{color:var(--muted);font-size:.75rem;font-weight:400}
.warning{margin-bottom:.375rem;color:var(--warning)}
.use{margin:.75rem 0 .375rem}
.bar{position:relative;display:flex;gap:2px;height:1.125rem;border-radius:.375rem;overflow:hidden}
.bar i{min-width:3px;flex-basis:0}
.bar .end{position:absolute;inset:0 auto 0 0;min-width:0;border-right:3px solid var(--text)}
.legend{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(17rem,100%),1fr));gap:.125rem 2rem;
margin-top:.75rem;list-style:none}
.legend li{display:grid;grid-template-columns:auto 1fr auto 3.25rem;gap:.5rem;align-items:baseline}
.legend small{text-align:right}
li>i,td>i{width:.75rem;height:.75rem;border-radius:.1875rem;display:inline-block;vertical-align:-.0625rem}
td>i{margin-right:.375rem}
.bar,i{forced-color-adjust:none;print-color-adjust:exact}
.system{background:#71717a}
.tools{background:radial-gradient(#fff9 1px,#0000 1.5px) 0 0/5px 5px #0e7490}
.summaries{background:repeating-linear-gradient(45deg,#fff7 0 1.5px,#0000 1.5px 5px) #8b5cf6}
.shortened{background:repeating-linear-gradient(-45deg,#fff8 0 1.5px,#0000 1.5px 5px) #d97706}
.recalled{background:repeating-linear-gradient(#fff8 0 1.5px,#0000 1.5px 4px) #0d9488}
.verbatim{background:#3b82f6}
.attachments{background:repeating-linear-gradient(90deg,#fff8 0 1.5px,#0000 1.5px 4px) #db2777}
.reserve{background:repeating-linear-gradient(45deg,#71717a 0 1px,#0000 1px 4px);border:1px solid #71717a}
.free{background:var(--track)}
.dropped{border:1px dashed #71717a}
table{width:100%;border-collapse:collapse;table-layout:fixed}
th,td{padding:.3125rem .5rem .3125rem 0;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
tr>:last-child{padding-right:0}
tbody tr:last-child>*{border-bottom:0}
.turns tr>:nth-child(3),.turns tr>:nth-child(4),.breaks tr>:nth-child(4){text-align:right}
.breaks tbody th{color:inherit;font-size:inherit}
.breaks th::first-letter,.breaks td:nth-child(2)::first-letter{text-transform:uppercase}
.turns tr>:nth-child(4){color:var(--muted)}
.turns tr>:nth-child(5){padding-left:1rem}
td>div{display:-webkit-box;-webkit-box-orient:vertical;-webkit-line-clamp:2;overflow:hidden}
details,.missing{border-bottom:1px solid var(--line)}
details:last-child,.missing:last-child{border-bottom:0}
.missing{padding:.375rem .25rem;color:var(--muted)}
code{padding:.0625rem .25rem;border-radius:.25rem;background:var(--track);color:var(--text);font:.6875rem ui-monospace,
SFMono-Regular,Menlo,Consolas,monospace;white-space:nowrap}
summary{padding:.375rem .25rem;border-radius:.5rem;cursor:pointer}
summary::marker{color:var(--muted)}
summary:hover{background:var(--hover)}
summary b{font-weight:500;margin-right:.5rem}
.text{margin:.25rem 0 .75rem;padding:.75rem;border-radius:.75rem;background:var(--hover);white-space:pre-wrap}
.actions{display:flex;flex-wrap:wrap;gap:.5rem;align-items:center;padding-bottom:.75rem}
.actions p{flex:1 1 14rem}
button{padding:.375rem .875rem;border:1px solid var(--line);border-radius:999px;background:var(--surface);
color:var(--text);font:inherit;font-weight:500;cursor:pointer}
button:hover{background:var(--hover)}
:focus-visible{outline:2px solid var(--focus);outline-offset:2px}
@media (min-width:42rem){
.turns th:nth-child(1){width:4.25rem}
.turns th:nth-child(3),.turns th:nth-child(4){width:4.25rem}
.turns th:nth-child(5){width:11rem}
.turns th:nth-child(6){width:4.25rem}
.breaks th:nth-child(2){width:10rem}
.breaks th:nth-child(3){width:5rem}
.breaks th:nth-child(4){width:6.5rem}
}
@media (max-width:41.99rem){
body{padding:.875rem}
tr{display:grid;padding:.375rem 0;border-bottom:1px solid var(--line)}
.turns tr{grid-template-columns:4rem 3.25rem minmax(0,1fr) 3.5rem}
.turns td:nth-child(n+3){font-size:.75rem}
.breaks tr{grid-template-columns:1.75fr 1fr 1.25fr}
tbody tr:last-child{border-bottom:0}
.turns tr>*,.breaks tr>*{padding:0;border:0}
.turns tr>:nth-child(5){padding-left:.5rem}
.turns tr>:nth-child(2){grid-column:2/-1}
.turns tr>:nth-child(3){grid-column-start:1;text-align:left}
.breaks tr>:nth-child(1){grid-column:1/-1}
}
"""
STYLE: Final = _THEMES + _RULES

SCRIPT: Final = """
const page = document.documentElement;
const send = (message) => parent.postMessage(message, "*");
if (parent !== window) {
  new ResizeObserver(() => {
    const height = Math.ceil(page.getBoundingClientRect().height);
    if (height) send({type: "iframe:height", height});
  }).observe(page);
  for (const button of document.querySelectorAll("button")) {
    button.hidden = false;
    button.addEventListener("click", () => send({type: "input:prompt:submit", text: button.value}));
  }
  try {
    const host = parent.document.documentElement;
    const follow = () => { page.dataset.theme = host.classList.contains("dark") ? "dark" : "light"; };
    new MutationObserver(follow).observe(host, {attributeFilter: ["class"]});
    follow();
  } catch {}
}
"""
"""The buttons are shown only where somebody hears them. Open WebUI's own theme is known only to an embed of the same
origin; elsewhere the browser's decides."""
