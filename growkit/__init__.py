"""Growing trained networks wider and deeper while they train, without losing what they know."""

from growkit.discovery.discover import discover
from growkit.discovery.inputs import Inputs
from growkit.growth.api import grow
from growkit.growth.depth import Insert
from growkit.growth.plan import Plan
from growkit.growth.planning import make_plan
from growkit.growth.report import Report
from growkit.growth.verify import verify
from growkit.integrations.engine import Growth, request_growth
from growkit.train.step_return import StepCallbackReturn

__version__ = "0.1.0"

__all__ = [
    "Growth",
    "Inputs",
    "Insert",
    "Plan",
    "Report",
    "StepCallbackReturn",
    "discover",
    "grow",
    "make_plan",
    "request_growth",
    "verify",
]
