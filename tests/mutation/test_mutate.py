"""A mutant takes its module's place, its trial ends as its tests do, and the sums are right."""

from __future__ import annotations

import ast
import importlib
import os
import signal
import sys
from pathlib import Path

import mutate
import pytest
from mutants import Mutant, mutants

LOST = Mutant(7, "f", "return a | b", "return a & b", ast.Module([], []))
EXCUSED = Mutant(9, "", "a = 1", "a = 2", ast.Module([], []))


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of one line among the targets, without reasons why a mutant could survive."""
    (tmp_path / "planted.py").write_text("ANSWER = 42\n")
    (tmp_path / "none.toml").touch()
    monkeypatch.setattr(mutate, "ROOT", tmp_path)
    monkeypatch.setattr(mutate, "EQUIVALENT", tmp_path / "none.toml")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "planted", raising=False)
    return "planted"


def ends(monkeypatch: pytest.MonkeyPatch, codes: dict[str, int]) -> None:
    """Let a trial of a tree end with the exit code for its source; nothing is run."""
    monkeypatch.setattr(
        mutate,
        "trials",
        lambda _module, trees, _jobs: [(at, codes[ast.unparse(t)]) for at, t in enumerate(trees)],
    )


def test_a_mutant_takes_the_place_of_its_module_and_of_no_other(planted, monkeypatch) -> None:
    changed = next(mutants(mutate.source_of(planted).read_text()))
    finder = mutate._Changed(planted, mutate.source_of(planted), changed.tree)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    assert importlib.import_module(planted).ANSWER == 43
    assert finder.find_spec("struct", None) is None
    assert mutate.source_of(planted).read_text() == "ANSWER = 42\n"


def test_the_tests_of_the_edges_run_first_and_every_target_has_some() -> None:
    for module in mutate.TARGETS:
        names = [os.path.basename(path) for path in mutate.tests_of(module)]
        edges = [name.endswith("edges.py") for name in names]
        assert edges == sorted(edges, reverse=True)
        assert set(edges) == {True, False}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_each_trial_ends_with_the_exit_code_of_its_own_process(monkeypatch) -> None:
    monkeypatch.setattr(mutate, "try_mutant", lambda _module, tree: os._exit(tree))
    assert sorted(mutate.trials("any", [10, 11, 20], 2)) == [(0, 10), (1, 11), (2, 20)]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_trial_that_hangs_is_ended(monkeypatch) -> None:
    monkeypatch.setattr(mutate, "try_mutant", lambda _module, _tree: signal.pause())
    monkeypatch.setattr(mutate, "TRIAL_SECONDS_MAX", 0)
    assert list(mutate.trials("any", [None], 1)) == [(0, None)]


@pytest.mark.parametrize(
    "code, killed, hung",
    [(None, 1, 1), (-11, 1, 0), (11, 1, 0), (12, 1, 0), (13, 1, 0), (14, 1, 0), (10, 0, 0)],
)
def test_a_mutant_survives_only_if_all_tests_pass(planted, monkeypatch, code, killed, hung) -> None:
    ends(monkeypatch, {"ANSWER = 42": 10, "ANSWER = 43": 11, "ANSWER = 41": code})
    score = mutate.score(planted, 1)
    assert (score.count, score.killed, score.hung) == (2, 1 + killed, hung)
    assert [m.becomes for m in score.survivors] == ["ANSWER = 41"] * (1 - killed)
    assert score.percent == 50 * (1 + killed)


@pytest.mark.parametrize(
    "sound, changed, words",
    [(11, 11, "fail without any mutant: exit code 11"), (10, 20, "planted:1 went wrong: .* 20")],
)
def test_a_trial_that_says_nothing_ends_it_all(planted, monkeypatch, sound, changed, words) -> None:
    ends(monkeypatch, {"ANSWER = 42": sound, "ANSWER = 43": 11, "ANSWER = 41": changed})
    with pytest.raises(SystemExit, match=words):
        mutate.score(planted, 1)


REASON = """
[[mutant]]
module = "planted"
in = ""
was = "ANSWER = 42"
becomes = "ANSWER = 41"
reason = "Nobody reads it."
"""


def test_a_survivor_with_a_reason_is_told_apart_and_a_reason_needs_one(
    planted, monkeypatch
) -> None:
    mutate.EQUIVALENT.write_text(REASON)
    ends(monkeypatch, {"ANSWER = 42": 10, "ANSWER = 43": 11, "ANSWER = 41": 10})
    score = mutate.score(planted, 1)
    assert [reason for _, reason in score.equivalent] == ["Nobody reads it."]
    assert (score.survivors, score.percent, score.percent_of_noticeable) == ([], 50, 100)
    ends(monkeypatch, {"ANSWER = 42": 10, "ANSWER = 43": 11, "ANSWER = 41": 11})
    with pytest.raises(SystemExit, match=r"not equivalent: .*ANSWER = 41"):
        mutate.score(planted, 1)


def test_the_page_names_every_survivor_and_adds_up() -> None:
    score = mutate.Score("quiver.a", 8, 6, 1, [LOST], [(EXCUSED, "Nobody reads it.")])
    page = mutate.report([score], "make mutate", 90)
    assert "| `quiver.a` | 8 | 6 | 1 | 1 | 1 | 75.0 % | 85.7 % |" in page
    assert r"| `quiver.a` 7 | `f` | `return a \| b` | `return a & b` |" in page
    assert "| `quiver.a` 9 | `module` | `a = 1` | `a = 2` | Nobody reads it. |" in page
    assert "Made by `make mutate` on" in page
    assert "None." in mutate.report([mutate.Score("quiver.a", 1, 1)], "make mutate", 90)
