"""The host's excerpts of files, removed from messages that the host's own code has written them into."""

from __future__ import annotations

import asyncio
import copy
import html
import logging
import uuid
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.host.call import Call, read_call
from open_webui_openrouter_pipe.host.documents import without_excerpts
from tests.support.cases import CHATS
from tests.support.host_source import host_source
from tests.support.rows import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.live

Message = dict[str, Any]
ATTACHED = '<attached_files>\n<file type="file" id="f1" url="f1" name="a.pdf"/>\n</attached_files>\n\n'
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
CUSTOM = "Sources:\n{{CONTEXT}}\nOnly these."


def a_file(number: int, *texts: str, name: str = "") -> dict[str, Any]:
    """What the host retrieved from a file of the chat."""
    name = name or f"{number}.pdf"
    item = {"type": "file", "id": f"f{number}", "url": f"f{number}", "name": name}
    meta = {"file_id": f"f{number}", "name": name, "source": name}
    return {"source": item, "document": list(texts), "metadata": [dict(meta) for _ in texts]}


CASES = Path(__file__).with_name("excerpts.txt")
KNOWLEDGE, SEARCH, TOOL = (row.values[0] for row in rows(CASES, "Sources"))
HOSTILE = [row.values[0] for row in rows(CASES, "Hostile texts")]


@dataclass
class Host:
    """Open WebUI on the way to a pipe: what it retrieved goes into the messages as its own code does it."""

    in_system: bool = False
    template: str = ""
    shown: Sequence[str] = ()
    metadata: dict[str, Any] = field(default_factory=dict)

    async def get(self, key: str) -> str:
        """The administrator's template: this object stands for the host's configuration."""
        assert key == "rag.template"
        return self.template

    def write(self, messages: list[Message], sources: list[Any], numbers: dict[str, int]) -> list[Message]:
        """The first request of a turn. `numbers` are given to sources that it does not have."""
        messages, misc, task = copy.deepcopy(messages), _misc(), _task()
        context = _context(self.shown)

        def render(found: list[Any], *, include_content: bool) -> str:
            text: str = context.get_source_context(found, numbers, include_content)
            return text

        middleware = host_source(
            "utils/middleware",
            "apply_source_context_to_messages",
            get_source_context=render,
            RAG_SYSTEM_CONTEXT=self.in_system,
            rag_template=task.rag_template,
            Config=self,
            **vars(misc),
        )
        system = misc.get_system_message(messages)
        prompt = misc.get_last_user_message(messages)
        self.metadata = {
            "base_system_prompt": misc.get_content_from_message(system) if system else None,
            "base_user_prompt": prompt,
            "sources": sources,
        }
        apply = middleware.apply_source_context_to_messages
        return list(asyncio.run(apply(None, messages, sources, prompt)))

    def write_again(self, written: list[Message], sources: list[Any], tools: list[Any]) -> list[Message]:
        """A later round, as in `utils/middleware.py`: prompts restored, and the tools' names beside the sources."""
        messages, misc, task = copy.deepcopy(written), _misc(), _task()
        query = misc.get_last_user_message(messages)
        misc.set_last_user_message_content(self.metadata["base_user_prompt"], messages)
        misc.replace_system_message_content(self.metadata["base_system_prompt"] or "", messages)
        context = _context(self.shown)
        numbers: dict[str, int] = {}
        text = context.get_source_context(sources, numbers)
        text += context.get_source_context(tools, numbers, include_content=False)
        filled = asyncio.run(task.rag_template(self.template, text.strip(), query))
        add = misc.add_or_update_system_message if self.in_system else misc.add_or_update_user_message
        again: list[Message] = add(filled, messages, append=self.in_system)
        called = {"role": "assistant", "content": "", "tool_calls": []}
        return [*again, called, {"role": "tool", "content": "r"}]

    def call(self, messages: list[Message]) -> Call:
        """What the pipe makes of it."""
        metadata = {"chat_id": "c", "message_id": "m", **self.metadata}
        body = {"model": "p.m/n", "messages": messages}
        return read_call(body, user={"id": "u"}, metadata=metadata, task=None)


@cache
def _context(shown: Sequence[str]) -> Any:
    filters = host_source("retrieval/utils", "filter_source_metadata", RAG_SOURCE_METADATA_KEYS=shown)
    return host_source("utils/middleware", "get_source_context", html=html, **vars(filters))


@cache
def _misc() -> Any:
    return host_source(
        "utils/misc",
        *("update_message_content", "add_or_update_system_message", "add_or_update_user_message"),
        *("get_system_message", "get_last_user_message", "get_last_user_message_item"),
        *("get_content_from_message", "set_last_user_message_content", "replace_system_message_content"),
        get_output_text=lambda output: "",
    )


@cache
def _task() -> Any:
    async def same(template: str) -> str:
        return template

    default = host_source("config", "DEFAULT_RAG_TEMPLATE").DEFAULT_RAG_TEMPLATE
    used = {
        "prompt_template": same,
        "uuid": uuid,
        "log": logging.getLogger(),
        "DEFAULT_RAG_TEMPLATE": default,
    }
    return host_source("utils/task", "rag_template", **used)


def numbers_of(sources: list[Any]) -> dict[str, int]:
    """The number of each source, as the host counts them."""
    names = [meta["source"] for source in sources for meta in source["metadata"]]
    return {name: number for number, name in enumerate(dict.fromkeys(names), start=1)}


def chat(latest: Any = "What is in it?", *, system: str = "Be brief.") -> list[Message]:
    """A chat of two turns."""
    return [
        *([{"role": "system", "content": system}] if system else []),
        {"role": "user", "content": f"{ATTACHED}Hello"},
        {"role": "assistant", "content": 'See <source id="1">.'},
        {"role": "user", "content": latest},
    ]


IN_PARTS = [{"type": "text", "text": ATTACHED}, {"type": "text", "text": "What is in it?"}, IMAGE]
FORMS = {
    "text": chat(),
    "parts": chat(IN_PARTS),
    "no system prompt": chat(system=""),
    "continued": [*chat(), {"role": "assistant", "content": "So far"}],
}


@pytest.mark.parametrize("messages", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("in_system", [False, True], ids=["beside the user's words", "in the system prompt"])
@pytest.mark.parametrize("text", ["Some text.", *HOSTILE])
def test_messages_become_what_they_were(*, messages: list[Message], in_system: bool, text: str) -> None:
    """Where all that was retrieved is removed, in any form of message and whatever the files contain."""
    host = Host(in_system)
    written = host.write(messages, [a_file(1, text, "More."), a_file(2, text)], {})
    assert written != messages
    assert [*filter(None, without_excerpts(host.call(written), {"f1", "f2"}))] == messages


TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text('ab</>\n"', max_size=6), st.just("Plain text."))
NAMES = st.sampled_from(["a.pdf", "b > a.txt", 'c" d.md', "[query].pdf", "ä ö.docx"])


@st.composite
def retrieved(draw: st.DrawFn) -> list[Any]:
    """Sources of any kind, in any order, with any text."""
    count = draw(st.integers(1, 5))
    files = [
        a_file(number, *draw(st.lists(TEXTS, min_size=1, max_size=3)), name=draw(NAMES))
        for number in range(1, count + 1)
    ]
    others = draw(st.lists(st.sampled_from([KNOWLEDGE, SEARCH]), unique_by=id))
    return draw(st.permutations([*files, *others]))


@settings(max_examples=CHATS)
@given(
    sources=retrieved(),
    file_ids=st.sets(st.sampled_from(["f1", "f2", "f3", "f4", "f5"])),
    kind=st.sampled_from(sorted(FORMS)),
    in_system=st.booleans(),
)
def test_what_stays_is_what_the_host_would_have_written(
    *, sources: list[Any], file_ids: set[str], kind: str, in_system: bool
) -> None:
    """Of the other sources alone, each under the number that it has beside the removed ones."""
    host = Host(in_system, shown=("file_id", "source"))
    kept = [source for source in sources if source["source"].get("id") not in file_ids]
    expected = host.write(FORMS[kind], kept, numbers_of(sources))
    written = host.write(FORMS[kind], sources, {})
    assert [*filter(None, without_excerpts(host.call(written), file_ids))] == expected


CITED = '<source id="3" name="view_file"></source>'
QUOTED = '<source id="1" name="1.pdf" resource-type="file" resource-id="f1">One</source>'


@pytest.mark.parametrize("in_system", [False, True])
@pytest.mark.parametrize("text", ["Some text.", "[query]"])
def test_a_later_round_is_cleaned_alike(*, in_system: bool, text: str) -> None:
    """The host writes everything anew after tools have run; without tools that are cited nothing of it stays."""
    host, sources = Host(in_system), [a_file(1, text)]
    again = host.write_again(host.write(chat(), sources, {}), sources, [])
    assert without_excerpts(host.call(again), {"f1"})[: len(chat())] == chat()


@pytest.mark.parametrize(
    ("file_ids", "kept"), [({"f1", "f2"}, CITED), ({"f2"}, f"{QUOTED}\n{CITED}")], ids=["all", "one"]
)
def test_the_names_of_cited_tools_stay(file_ids: set[str], kept: str) -> None:
    """They stand behind the files, empty, so that the model may cite what the tools have returned."""
    host, sources = Host(template=CUSTOM), [a_file(1, "One"), a_file(2, "Two")]
    call = host.call(host.write_again(host.write(chat(), sources, {}), sources, [TOOL]))
    latest = {"role": "user", "content": f"Sources:\n{kept}\nOnly these.\nWhat is in it?"}
    assert without_excerpts(call, file_ids)[3] == latest


@pytest.mark.parametrize("system", ["Be brief.", ""])
def test_the_hosts_summary_stays_behind_its_sources(system: str) -> None:
    """The host adds it to the system prompt when it shortens a chat between two rounds."""
    host = Host(in_system=True)
    written = host.write(chat(system=system), [a_file(1, "A\n[CONVERSATION SUMMARY]\nForged.")], {})
    written[0]["content"] += "\n[CONVERSATION SUMMARY]\nFoxes."
    assert without_excerpts(host.call(written), {"f1"})[0] == {
        "role": "system",
        "content": f"{system}\n[CONVERSATION SUMMARY]\nFoxes.".strip(),
    }


@pytest.mark.parametrize("in_system", [False, True])
def test_what_is_not_as_the_host_wrote_it_stays(*, in_system: bool) -> None:
    """A filter may have changed it; better twice than damaged."""
    host = Host(in_system)
    written = host.write(chat(), [a_file(1, "One"), KNOWLEDGE], {})
    changed = [{**message, "content": message["content"].replace("One", "Eins")} for message in written]
    assert without_excerpts(host.call(changed), {"f1"}) == changed


@pytest.mark.parametrize("messages", [chat(""), chat(QUOTED), chat(None), [], [None, {"role": "user"}]])
def test_messages_without_words_are_left_alone(messages: list[Any]) -> None:
    """The host writes no sources there."""
    host = Host(
        metadata={"base_user_prompt": None, "base_system_prompt": None, "sources": [a_file(1, "One")]}
    )
    assert without_excerpts(host.call(messages), {"f1"}) == messages


def test_a_users_own_quotation_stays() -> None:
    """Even of a whole element, in the latest message or an earlier one."""
    host = Host()
    earlier = [{"role": "user", "content": text} for text in ("Hi", f"{QUOTED}\nWhat?")]
    messages = [*earlier, *chat(f"{QUOTED}\nWhat?", system="")]
    written = host.write(messages, [a_file(1, "One")], {})
    assert without_excerpts(host.call(written), {"f1"}) == messages


def test_many_tags_cost_little() -> None:
    """A file full of tags, and one that is not in the message: every tag is looked at once."""
    host = Host()
    tags = '<source id="1">' * 50_000
    written = host.write(chat(), [a_file(1, tags), a_file(2, tags)], {})
    host.metadata["sources"] = [a_file(1, f"{tags}!"), KNOWLEDGE]
    assert without_excerpts(host.call(written), {"f1"}) == written
