"""What a release has stored is read by every later one; its data are never edited."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe import __version__
from open_webui_openrouter_pipe.conversation.budget import Calibration
from open_webui_openrouter_pipe.host.model_rows import RowInfo, updated_row
from open_webui_openrouter_pipe.host.switches import SWITCHES, switched_on
from open_webui_openrouter_pipe.maintenance.pipe import MaintenanceValves
from open_webui_openrouter_pipe.maintenance.updates import check_signature, read_release
from open_webui_openrouter_pipe.money.audit import Bill, bill_json, read_bill
from open_webui_openrouter_pipe.settings import read_settings
from open_webui_openrouter_pipe.summaries.summary import Summary
from open_webui_openrouter_pipe.valves import HostValves, StoredUserValves
from scripts.harness.database import open_database
from scripts.paths import ROOT
from tests.golden import releases, subjects
from tests.golden.releases import DIALECTS, DIGESTS, FOLDER

if TYPE_CHECKING:
    from pathlib import Path

CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
EACH = pytest.mark.parametrize("version", DIGESTS)


def within(old: Any, new: Any) -> bool:
    """Whether all is there that was there: objects may have more, those of a list too."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(key in new and within(value, new[key]) for key, value in old.items())
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(within, old, new))
    return bool(old == new)


def test_each_version_has_its_data() -> None:
    """From 1.0.0 on: the changelog's versions, the folders and the digests are one; the newest has today's tables."""
    versions = re.findall(r"^## (\d+\.\d+\.\d+)$", CHANGELOG, re.MULTILINE)
    assert versions[0] == __version__
    assert versions == sorted(DIGESTS, key=lambda each: [*map(int, each.split("."))], reverse=True)
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(DIGESTS)
    for dialect in DIALECTS:  # whoever changes tables begins a version
        assert releases.read(__version__, f"{dialect}.sql") == releases.tables(dialect)


@EACH
def test_the_data_were_not_edited(version: str) -> None:
    """To the byte."""
    assert releases.digest(FOLDER / version) == DIGESTS[version]


@EACH
@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_column_or_index_is_gone(version: str, dialect: str) -> None:
    """None has another type; what is new has a value for rows that are there."""
    old, new = releases.read(version, f"{dialect}.sql"), releases.tables(dialect)
    assert [*releases.lost_of_tables(old, new)] == []


@EACH
def test_valves_take_what_was_stored(version: str) -> None:
    """None is gone, or takes less; another default is in the changelog."""
    changes = CHANGELOG.partition(f"## {version}\n")[0]
    assert [*releases.lost_of_valves(releases.read(version, "valves.json"), releases.valves(), changes)] == []


async def reads(version: str, dialect: str, url: str) -> None:
    """Restore a release's database, and compare what its rows are to this one."""
    releases.restore(version, dialect, url.replace("postgresql:", "postgresql+psycopg:"))
    database = open_database(url)
    try:
        found = await releases.opens(database, releases.read(version, "rows.json"))
    finally:
        await database.aclose()
    old = releases.read(version, "opened.json")
    assert {name: within(value, found[name]) for name, value in old.items()} == dict.fromkeys(old, True)


@EACH
@pytest.mark.anyio
async def test_stored_rows_are_read(version: str, tmp_path: Path) -> None:
    """Items of each kind under each kind of key, summaries, prompts, sums of bills, calibrations, holds."""
    await reads(version, "sqlite", f"sqlite:///{tmp_path}/rows.db")


@EACH
@pytest.mark.anyio
@pytest.mark.servers
async def test_stored_rows_are_read_on_postgresql(version: str, postgres_url: str) -> None:
    """The same rows, in the tables that the release has made there."""
    await reads(version, "postgresql", postgres_url)


@EACH
@pytest.mark.anyio
async def test_answers_name_the_same_items(version: str) -> None:
    """Markers in texts and in code, references beside the reasoning, ids of calls."""
    for case in releases.read(version, "answers.json"):
        assert within(case["sent"], await releases.sent(case["answer"]))


@EACH
def test_stored_settings_mean_what_they_meant(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every valve takes its stored value, without a complaint; users' keys open."""
    for module in ("valves", "settings"):
        monkeypatch.setattr(f"open_webui_openrouter_pipe.{module}.host_secret", lambda: subjects.SECRET)
    stored = releases.read(version, "settings.json")
    valves, own = HostValves(**stored["pipe"]), StoredUserValves(**stored["user"])
    assert (valves.problems, own.problems) == ((), ())
    assert within(stored["pipe"], {**valves.model_dump(), "ADVANCED": stored["pipe"]["ADVANCED"]})
    assert within(json.loads(stored["pipe"]["ADVANCED"]), valves.advanced.model_dump())
    assert within(stored["user"], own.model_dump())
    assert read_settings(valves).checks.problems == ()
    opened = [subjects.opened_key(key, owner) for key, owner in zip(stored["keys"], ("", "ada"), strict=True)]
    assert opened == ["sk-or-own"] * 2
    address = {"UPDATE_ADDRESS": "https://a.example/update.json", "UPDATE_KEY": "key"}
    assert MaintenanceValves(**address).model_dump() == address


@EACH
def test_what_the_host_keeps_is_known_for_ours(version: str) -> None:
    """A model's row is rewritten, but for what somebody has edited; switches do what they did."""
    host = releases.read(version, "host.json")
    row, fields = RowInfo(**host["row"]), host["fields"]
    assert updated_row(row, fields) is None
    other = {**fields, "name": "Another", "description": "Another."}
    edited = RowInfo(row.name, {**row.meta, "description": "Mine."})
    updated = updated_row(edited, other)
    assert updated is not None
    assert (updated.name, updated.meta["description"]) == ("Another", "Mine.")
    by_id = {each.id: each for each in SWITCHES}
    for name, noted in host["switches"].items():
        assert by_id[name] in switched_on(noted)
    assert releases.host()["names"] == host["names"]


@EACH
def test_a_signed_release_is_taken(version: str) -> None:
    """By who has that version installed, and so by all."""
    update = releases.read(version, "update.json")
    check_signature(read_release(json.dumps(update["release"])), update["key"])


def test_what_a_later_release_adds_is_passed_over() -> None:
    """A release is taken back, or runs beside the next one: no bill, calibration or summary may be lost by that."""
    bill = Bill(id="b1", user_id="ada", cost=0.25, accounts=("all",))
    assert read_bill(json.dumps({**json.loads(bill_json(bill)), "later": {"a": 1}})) == bill
    calibration = Calibration(constant_tokens=7.0)
    assert Calibration.from_json({**calibration.as_json(), "later": 1}) == calibration
    for stored in releases.read("1.0.0", "opened.json")["summaries"].values():
        later = {**stored, "by_model": {**stored["by_model"], "later": 1}, "later": 1}
        assert Summary.from_json(later).as_json() == stored


# --- the comparisons


@pytest.mark.parametrize(
    ("old", "new", "is_within"),
    [
        ([{"a": [1, {"b": 2}]}], [{"a": [1, {"b": 2, "c": 3}], "d": 4}], True),
        ([{"a": 1}], [{"a": 2, "b": 3}], False),
        ([{"a": 1}, {"a": 1}], [{"a": 1}], False),
        ([1], [1, 2], False),
        ({"a": None}, {}, False),
    ],
)
def test_what_is_within_what_is_read(old: Any, new: Any, *, is_within: bool) -> None:
    """A later release may read more fields of each thing, but none otherwise, and no thing less or more."""
    assert within(old, new) == is_within


TABLE = "CREATE TABLE a (\n\tid TEXT NOT NULL, \n\tcost BIGINT DEFAULT '0' NOT NULL, \n\tPRIMARY KEY (id)\n)"
INDEX = "CREATE INDEX ix_a_cost ON a (cost)"


@pytest.mark.parametrize(
    ("new", "lost"),
    [
        (f"{TABLE};\n{INDEX};\nCREATE TABLE b (\n\tid TEXT NOT NULL\n);\n", 0),
        (f"{TABLE.replace('PRIMARY', 'more TEXT DEFAULT 0 NOT NULL, PRIMARY')};\n{INDEX};\n", 1),
        (TABLE.replace("\tPRIMARY", "\tmore BIGINT DEFAULT '0' NOT NULL, \n\tPRIMARY") + f";\n{INDEX};\n", 0),
        (TABLE.replace("\tPRIMARY", "\tmore BIGINT NOT NULL, \n\tPRIMARY") + f";\n{INDEX};\n", 1),
        (TABLE.replace("BIGINT", "TEXT") + f";\n{INDEX};\n", 1),
        (TABLE.replace("(id)", "(id, cost)") + f";\n{INDEX};\n", 2),
        (TABLE.replace("\tcost BIGINT DEFAULT '0' NOT NULL, \n", "") + f";\n{INDEX};\n", 1),
        (f"{TABLE};\n", 1),
        ("", 6),
    ],
)
def test_what_is_lost_of_tables(new: str, lost: int) -> None:
    """A column, its type, a key or an index; and a new column that rows could not have."""
    assert len([*releases.lost_of_tables(f"{TABLE};\n{INDEX};\n", new)]) == lost


NUMBER = {"takes": "int", "default": 4, "limits": {"ge": 1, "le": 9}}
CHOICE = {"takes": ["a", "b"], "default": "a"}


@pytest.mark.parametrize(
    ("name", "new", "lost"),
    [
        ("N", NUMBER, []),
        ("N", {**NUMBER, "limits": {"ge": 0}}, []),
        ("N", None, ["pipe N is gone"]),
        ("N", {**NUMBER, "takes": "str"}, ["pipe N: int is str"]),
        ("N", {**NUMBER, "limits": {"ge": 1, "le": 8}}, ["pipe N: not all of its range"]),
        ("N", {**NUMBER, "limits": {"gt": 1, "le": 9}}, ["pipe N: not all of its range"]),
        (
            "N",
            {**NUMBER, "default": 5},
            ["pipe N: its default is another, and the changelog does not name it"],
        ),
        ("C", {**CHOICE, "takes": ["a", "b", "c"]}, []),
        ("C", {**CHOICE, "takes": ["a"]}, ["pipe C: no b"]),
        ("C", {**CHOICE, "takes": "str"}, ["pipe C: ['a', 'b'] is str"]),
        ("C", {**CHOICE, "default": "b"}, []),
    ],
)
def test_what_is_lost_of_valves(name: str, new: Any, lost: list[str]) -> None:
    """One that is gone, takes less, or does something else without a word."""
    old = {"pipe": {"N": NUMBER, "C": CHOICE}}
    changed = {key: value for key, value in {**old["pipe"], name: new}.items() if value}
    assert [*releases.lost_of_valves(old, {"pipe": changed}, "- `C` is `b`.")] == lost
