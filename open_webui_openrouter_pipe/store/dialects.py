"""What SQLite and PostgreSQL say differently when a query names a list of texts.

A list travels as one parameter (JSON for SQLite, an array for PostgreSQL): no list is too long for the database,
and the statement is the same for every length, so that drivers can keep it prepared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a column is compared with the parameter `ids`, and how that parameter is made of a list."""

    is_one_of: Callable[[sa.ColumnElement[str]], sa.ColumnElement[bool]]
    id_list: Callable[[Sequence[str]], Any]


def _in_json(column: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    return column.in_(sa.text("SELECT value FROM json_each(:ids)"))


def _in_array(column: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    return column == sa.any_(sa.bindparam("ids", type_=ARRAY(sa.Text)))


DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType(
    {"sqlite": Dialect(_in_json, json.dumps), "postgresql": Dialect(_in_array, list)}
)
