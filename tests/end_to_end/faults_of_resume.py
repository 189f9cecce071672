"""Faults of what a run takes up again, and of what it is shared by: see `faults`."""

_LAW = "end_to_end/test_resume.py"

RESUME: dict[tuple[str, str], dict[str, tuple[str, str]]] = {
    ("train/snapshot.py", _LAW): {
        "gradients that wait are not saved": ("    if state.progress.partial:\n", "    if False:\n"),
        "updates of callbacks forgotten": ('saved["settings"]["updates"])', "{})"),
        "optimizers start with empty slots": (
            '            if slots := saved["state"][key]:',
            "            if slots := {}:",
        ),
        "metrics since the last row forgotten": ('    state.metrics.load_state_dict(own["metrics"])\n', ""),
        "callbacks start anew": ('        one.load_state_dict(saved["stateful"][name])', "        pass"),
    },
    ("train/engine.py", _LAW): {
        "random numbers start anew": ("                random_state.restore(random)", "                pass"),
    },
    ("train/tbptt_loop.py", _LAW): {
        "carry not saved": ('            "carry": self._carry,', '            "carry": None,'),
        "splits that ran run again": ("splits[state.progress.split :]", "splits"),
    },
    ("train/epoch_loop.py", _LAW): {
        "a window begins again": ("range(state.progress.micro, length)", "range(length)"),
    },
    ("train/fit_loop.py", _LAW): {
        "an epoch is closed again": ('        self._closed = state["closed"]', "        pass"),
    },
    ("train/run_state.py", "train/test_checkpoints.py"): {
        "rows behind the checkpoint stay": ("if not is_measured][:steps]", "if not is_measured]"),
    },
    ("train/sharding.py", "train/test_sharding.py"): {
        "gradients that wait are left behind": ("        if parameter.grad is not None:\n", "        if False:\n"),
    },
    ("discovery/scaling.py", "end_to_end/test_temperature.py"): {
        "masks bring no factor": ("        added = self._of(mask)\n", "        added = NONE\n"),
    },
}
