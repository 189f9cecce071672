"""The example of growth by a callback, run as it stands."""

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "callback_engine.py"


def test_the_example_grows_twice_and_learns_what_the_small_net_could_not() -> None:
    engine = runpy.run_path(str(EXAMPLE))["main"]()
    rows = {row["step"]: row for row in engine.history}
    # embed 48, norm 32, up 16h + h, down 16h + 16, head 17; h = 4, then 16; then three blocks instead of one.
    small, wide = 48 + 32 + 68 + 80 + 17, 48 + 32 + 272 + 272 + 17
    deep = wide + 2 * (32 + 272 + 272)
    assert [rows[step]["parameters"] for step in (100, 200, 300, 500)] == [small, wide, deep, deep]
    assert [rows[step]["learning_rate"] for step in (100, 200, 300)] == [5e-3, 5e-3, 2e-3]
    assert rows[500]["loss_mean"] < rows[100]["loss_mean"] / 2
    assert sorted(engine._state.services["growth"].done) == ["deeper", "wider"]
