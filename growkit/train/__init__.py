"""The training engine: a loop in which the model may change."""

from growkit.train.config_updates import RESET
from growkit.train.engine import Engine
from growkit.train.metrics import Metrics
from growkit.train.plateau import ReduceOnEvaluation
from growkit.train.progress import Progress
from growkit.train.runtime import Runtime
from growkit.train.services import Service
from growkit.train.setting_values import ChangingSetting, ComputedSetting, EpochwiseSetting, StepwiseSetting
from growkit.train.settings import Settings
from growkit.train.split_batch import Split, split_batch
from growkit.train.step_return import StepCallbackReturn

__all__ = [
    "RESET",
    "ChangingSetting",
    "ComputedSetting",
    "Engine",
    "EpochwiseSetting",
    "Metrics",
    "Progress",
    "ReduceOnEvaluation",
    "Runtime",
    "Service",
    "Settings",
    "Split",
    "StepCallbackReturn",
    "StepwiseSetting",
    "split_batch",
]
