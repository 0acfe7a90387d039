"""Hostile copies of two ranks: printed texts, decoys, forged records (see test_hostile.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("hostile_checks")

import hostile_course  # noqa: E402
from hostile_checks import Checks, attack_is_held  # noqa: E402
from hostile_class import WHOLE_S, Class, graded, skip_without_box  # noqa: E402
from hostile_course import Attack  # noqa: E402

pytestmark = [pytest.mark.launch, pytest.mark.timeout(WHOLE_S + 120)]


@pytest.fixture(scope="module")
def one(request: pytest.FixtureRequest) -> Iterator[Class]:
    yield from graded("duo", request)


@pytest.mark.parametrize("attack", hostile_course.attacks("duo"), ids=lambda attack: attack.name)
def test_an_attack(attack: Attack, request: pytest.FixtureRequest) -> None:
    skip_without_box(attack)
    attack_is_held(request.getfixturevalue("one"), attack)


class TestTheClass(Checks):
    """See hostile_checks.py."""
