"""Damages inputs: bytes, texts and JSON, with what readers have tripped over. All dice are passed in."""

from __future__ import annotations

import copy
from random import Random
from typing import Any, Final

MARKER: Final = "[00000000000000010000]: #"
DEEP: Final = 300
"""Levels: more than a value may have, and as few as every reader of JSON takes."""

TEXTS: Final = (
    *(
        "",
        " ",
        "\n\n",
        "\r",
        "\0",
        "\ud800",
        "\udc00x",
        "\U0001f600",
        "\u2028",
        "\ufeff",
        "\u202e",
        "\x1b[31m",
    ),
    *(
        "9" * 4400,
        "-1",
        "0",
        "1e999",
        "NaN",
        "Infinity",
        "1_000",
        "\u0663",
        "\u00b2",
        "0x10",
        f"&#{'9' * 4400};",
    ),
    *(f"\n{MARKER}\n", f"{MARKER} ", "]: #", f"call_{MARKER[1:21]}", "[DONE]", "data: ", "event: x\n", ": "),
    *("<details", '<details type="tool_calls" done="true" id="c9" name="f" arguments="{}">\n', "</details>"),
    *(
        '<details type="code_interpreter" output="[">',
        "<summary>",
        "</summary>",
        "<think>",
        "</think>",
        "&quot;",
    ),
    *(
        "```",
        "~~~\n",
        "`",
        "    ",
        "\t",
        "![",
        "](",
        "![a](data:image/png;base64,AAAA)",
        "/api/v1/files/1/content",
    ),
    *(
        "[" * DEEP,
        "{" * DEEP,
        '{"a":' * DEEP,
        '"',
        "\\",
        "\\u",
        "{}",
        "[]",
        "null",
        '{"type":',
        ",",
        "|",
        "-----",
    ),
    *(
        "https://x.org/",
        "https://[::ffff:127.0.0.1]/",
        "javascript:alert(1)",
        "data:text/html,x",
        "//x",
        "@",
        ":80",
    ),
    *(
        "--- a\n+++ b\n@@ -1,",
        " @@\n",
        "sk-or-v1-0123456789abcdef",
        "Bearer ",
        "=1+1",
        "<script>",
        "'\">",
        "\u2063",
    ),
    *(
        "<openwebui_context_summary>",
        "[CONVERSATION SUMMARY]\n",
        "<memory_context>\n",
        "<source id=",
        "</source>",
    ),
    *(
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "9999-12-31T23:59:59+99:99",
        "20200230",
        "openai/",
        "~",
        "*",
    ),
)
VALUES: Final[tuple[Any, ...]] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1.5,
        1e308,
        float("nan"),
        float("inf"),
        2**53 + 1,
        2**63,
        10**300,
        "",
        "x",
        [],
    ),
    *(
        {},
        [[]],
        [None],
        [{}],
        {"type": None},
        {"": ""},
        {"type": "message"},
        {"text": 5},
        {"url": []},
        "completed",
    ),
    *("failed", "function_call", "function_call_output", "reasoning", "message", "openrouter:web_search"),
    *(
        "output_text",
        "refusal",
        "input_image",
        "url_citation",
        "final_answer",
        "user",
        "assistant",
        "system",
        "tool",
    ),
)


def _deep() -> Any:
    value: Any = "x"
    for level in range(DEEP):
        value = [value] if level % 2 else {"type": value}
    return value


_DEEP: Final = _deep()


def text(dice: Random, given: str, others: tuple[str, ...] = TEXTS) -> str:
    """A text with one thing put in, taken out, doubled or exchanged."""
    start, end = sorted(dice.randrange(len(given) + 1) for _ in range(2))
    end = min(end, start + dice.choice((1, 8, 64, 4096)))
    found = dice.choice((dice.choice(TEXTS), dice.choice(others)))
    match dice.randrange(5):
        case 0:
            return given[:start] + found + given[start:]
        case 1:
            return given[:start] + given[end:]
        case 2:
            return given[:end] + given[start:end] * dice.choice((1, 2, 40)) + given[end:]
        case 3:
            return given[:start] + found + given[end:]
    return given[:start]


def data(dice: Random, given: bytes) -> bytes:
    """Bytes with a bit turned, or changed as a text is."""
    if given and dice.random() < 0.4:
        at = dice.randrange(len(given))
        return given[:at] + bytes([given[at] ^ 1 << dice.randrange(8)]) + given[at + 1 :]
    changed = text(
        dice,
        given.decode("latin-1"),
        tuple(each.encode("utf-8", "replace").decode("latin-1") for each in TEXTS),
    )
    return changed.encode("latin-1", "replace")


def value(dice: Random, given: Any) -> Any:
    """A JSON value in which one to four members are others, gone, doubled, renamed, or texts that are changed."""
    whole = [copy.deepcopy(given)]
    for _ in range(dice.choice((1, 1, 2, 4))):
        places = [*_places(whole)]
        holder, key = dice.choice(places)
        other_holder, other_key = dice.choice(places)
        match dice.randrange(8):
            case 0 | 1:
                holder[key] = copy.deepcopy(dice.choice((*VALUES, dice.choice(TEXTS), _DEEP)))
            case 2 if holder is not whole:
                del holder[key]
            case 3 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case 4 if isinstance(holder, dict):
                holder[text(dice, key)] = holder.pop(key)
            case 5:
                holder[key] = copy.deepcopy(other_holder[other_key])
            case _ if isinstance(holder[key], str):
                holder[key] = text(dice, holder[key])
            case _ if isinstance(holder[key], int | float):
                holder[key] = dice.choice((-holder[key], str(holder[key]), holder[key] + 0.5))
    return whole[0]


def _places(holder: Any) -> Any:
    """All members of a value with what holds them."""
    for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
        yield holder, key
        if isinstance(holder[key], dict | list):
            yield from _places(holder[key])
