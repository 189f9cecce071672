"""Chains of loops in words."""

from dataclasses import fields
from typing import Any

import pytest

from growkit.train import Settings
from growkit.train.explain import SHAPED_BY


def carrying(model, batch, carry): ...
def yielding(model, batch):
    yield


class Around:
    def __init__(self, state, inner):
        self.inner = inner


def explained(capsys: pytest.CaptureFixture[str], engine: Any) -> list[str]:
    engine.explain()
    return capsys.readouterr().out.splitlines()


def test_each_loop_with_its_feature_and_its_settings(make_engine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings(
        truncated_bptt_steps=4,
        time_dims=1,
        accumulate_steps=2,
        update_every="batch",
        gradient_clip_norm=0.5,
    )
    engine = make_engine(train_step=carrying, settings=settings, loops=[Around])
    assert explained(capsys, engine) == [
        "FitLoop -> EpochLoop -> Around -> TbpttLoop -> AutomaticFlow",
        "  FitLoop (in every run): keep_last=3, keep_best=0, best_mode='min'",
        "  EpochLoop (in every run): accumulate_steps=2, log_every=50",
        "  Around (Engine(loops=[...]))",
        "  TbpttLoop (Settings(truncated_bptt_steps=...)): truncated_bptt_steps=4, time_dims=1, "
        "update_every='batch', carry_over_batches=False",
        "  AutomaticFlow (train_step returns a loss): gradient_clip_norm=0.5, nonfinite='raise', schedule_by='update'",
    ]


def test_what_asks_for_a_flow(make_engine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    engine = make_engine(train_step=yielding, settings=Settings(learning_rate=0.25))
    assert explained(capsys, engine)[-1].startswith("  YieldingFlow (train_step yields): learning_rate=0.25, ")


def test_updates_show(make_engine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    engine = make_engine()
    engine._state.settings = Settings(log_every=7)
    assert "  EpochLoop (in every run): accumulate_steps=1, log_every=7" in explained(capsys, engine)


def test_the_table_names_settings_once() -> None:
    named = [name for names in SHAPED_BY.values() for name in names]
    assert set(named) < {setting.name for setting in fields(Settings)}
    assert len(set(named)) == len(named)
