"""Faults of what takes a factor when an axis grows; see `faults`."""

CORRECTIONS: dict[tuple[str, str], dict[str, tuple[str, str]]] = {
    ("discovery/corrections.py", "end_to_end/test_corrected_laws.py"): {
        "float that takes its factor twice": ("if any(one.target == at for one in found[serial]):", "if False:"),
    },
    ("discovery/cuts.py", "end_to_end/test_corrected_laws.py"): {
        "both sides of a square weight": ("if sum(map(bool, dims)) > 1:", "if False:"),
    },
    ("discovery/weight_norms.py", "discovery/test_weight_norms.py"): {
        "lengths take the square": ("energy=(produced - consumed) / 2", "energy=produced - consumed"),
        "lengths used elsewhere": (" if norm.length is not None and _alone(graph, norm) else None", ""),
    },
    ("constraints/weights.py", "constraints/test_weights.py"): {
        "uneven copies of a gain": ("*([products] if copied else []), ", ""),
    },
    ("discovery/scaling.py", "discovery/test_scaling.py"): {
        "eps of a norm forgotten": (
            "            self.corrections.append((place, where, dict(factor)))",
            "            pass",
        ),
        "factor of a mean of squares not halved by its root": (
            '"rsqrt": Fraction(-1, 2)',
            '"rsqrt": Fraction(-1)',
        ),
        "factor lost behind a view": (
            "if self.graph.changes_behind(number) and (made or any(map(self._of, op.values()))):",
            "if False:",
        ),
        "factor of an output forgotten": ('self._settle(value, -1, "output")', "pass"),
    },
    ("discovery/floats.py", "discovery/test_floats.py"): {
        "float known by its value alone": (
            "attributes[name] *= 1.0",
            "attributes[name] = attributes[name]",
        ),
        "second use of a float overlooked": (
            "return len(self._ops[path]) == uses and path not in self._lost",
            "return path not in self._lost",
        ),
    },
    ("discovery/statistics.py", "discovery/test_statistics.py"): {
        "every square taken for a statistic": (
            'value, "statistic" if self._only_summed(value) else None)',
            'value, "statistic")',
        ),
        "quotient by a norm along another dim": (
            '"statistic" if even and serial not in held else None',
            '"statistic" if even else None',
        ),
    },
    ("discovery/cuts.py", "discovery/test_cuts.py"): {
        "other readers of a scaled value overlooked": (
            "if cut.leaves and self._alone(cut, reader):",
            "if cut.leaves:",
        ),
        "cut through a write behind a view": (
            "if op is None or graph.changes_behind(value.number):",
            "if op is None:",
        ),
    },
    ("discovery/averages.py", "discovery/test_averages.py"): {
        "means read by a weight": (
            "return sum(holding) == 2 and Nature.WEIGHT in natures and states == {_State.ZERO}",
            "return sum(holding) == 2 and Nature.WEIGHT in natures",
        ),
    },
    ("growth/corrections.py", "growth/test_corrections.py"): {
        "silent units of copies": ("if axis_map.has_new for at in axis.silent", "for at in axis.silent"),
    },
    ("maps/methods/isometric.py", "maps/methods/test_isometric.py"): {
        "copies as long as their unit": ("1 / sqrt(counts[unit])", "1.0 / counts[unit]"),
    },
}
