"""Run one target under atheris: ``python fuzz/run.py wal 60`` for a minute.

It starts from ``corpus/<target>`` and keeps what it learns, and what it finds, in ``out/fuzz``.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    import atheris

    target, seconds, *more = sys.argv[1:]
    learned = ROOT / "out" / "fuzz" / target
    learned.mkdir(parents=True, exist_ok=True)
    with atheris.instrument_imports(include=["quiver", f"fuzz_{target}"]):
        module = importlib.import_module(f"fuzz_{target}")
    options = [
        f"-max_total_time={seconds}",
        "-max_len=16384",
        "-timeout=20",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        f"-artifact_prefix={learned.parent}/{target}-",
        *more,
    ]
    corpus = ROOT / "fuzz" / "corpus" / target
    atheris.Setup([sys.argv[0], *options, str(learned), str(corpus)], module.one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
