"""Faults of the discovery of axes, and of their names."""

_NOTHING = "pass"

DISCOVERY: dict[tuple[str, str], dict[str, tuple[str, str]]] = {
    ("axes/names.py", "axes/test_names.py"): {
        "ambiguous ending takes the first": ("if len(ending) > 1:", "if False:"),
        "ambiguous attribute takes all": ("if len(sized_axes) > 1 and not _joint(", "if False and not _joint("),
    },
    ("discovery/untouched.py", "discovery/test_untouched.py"): {
        "training flags not restored": ("restored.callback(self._entries.restore)", _NOTHING),
        "global generator moved": ("fork_rng(self._devices)", "fork_rng(self._devices, enabled=False)"),
        "running statistics not restored": ("tensor.copy_(value)", _NOTHING),
    },
    ("discovery/numbers.py", "discovery/test_numbers.py"): {
        "size written in the code not locked": (
            "self._lock(polynomials.axes_in(size), Lock(reason, where, KEEP))",
            _NOTHING,
        ),
        "temperature not seen": ('self._note(serial, "size_as_number", where)', _NOTHING),
    },
    ("discovery/stacks.py", "discovery/test_stacks.py"): {
        "blocks taken apart though they are used together": (
            "and _differ(axes, stacks) and _only_picked(axes, stacks, members)",
            "and _differ(axes, stacks)",
        ),
    },
    ("discovery/given_numbers.py", "discovery/test_given_numbers.py"): {
        "temperature of keys that lie across": ("if self._queries is None and powers", "if powers"),
    },
    ("discovery/scaling.py", "end_to_end/test_attention_grows.py"): {
        "temperature of parts forgotten": (
            '"contracted_tempered" if tempered else "contracted_part"',
            '"contracted_part"',
        ),
    },
    ("constraints/attention.py", "constraints/test_attention.py"): {
        "copies of a part of what is summed over": (
            "axis_map.energy is None or not isclose(axis_map.energy, 1.0, rel_tol=1e-12)",
            "False",
        ),
    },
    ("discovery/averages.py", "discovery/test_averages.py"): {
        "one parameter a bias before a norm and behind it": ("if same and roles in", "if roles in"),
    },
    ("discovery/cuts.py", "end_to_end/test_attention_grows.py"): {
        "biases of keys scaled with those of queries": ("if of is not None and not same and", "if of is None and"),
    },
    ("discovery/cuts.py", "discovery/test_cuts.py"): {
        "one of two neighbours scaled alone": ("(self._leaves_others and touched & {", "(False and touched & {"),
    },
    ("discovery/time_steps.py", "discovery/test_time_steps.py"): {
        "first step followed alone": ("data.narrow(time, 0, sum(ends))", "data.narrow(time, 0, sizes[0])"),
        "what a layer reads forgotten": ("tracer.flow.stand_for(few, data)", _NOTHING),
        "results written into unseen": ("tracer.flow.moved(made)", _NOTHING),
        "dim of some steps not that of all": ("(*kinds, *others)", "()"),
    },
    ("discovery/discover.py", "discovery/test_tied.py"): {
        "tied table grown as if read once": ("separate(graph, tracer.nature, tracer.held)", "[]"),
    },
}
