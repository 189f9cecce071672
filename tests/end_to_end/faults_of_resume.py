"""Faults of what a run takes up again, and of what it is shared by: see `faults`."""

_LAW = "end_to_end/test_resume.py"

RESUME: dict[tuple[str, str], dict[str, tuple[str, str]]] = {
    ("train/snapshot.py", _LAW): {
        "gradients that wait are not saved": (
            "    if state.progress.partial or state.gradients_stay:\n",
            "    if False:\n",
        ),
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
    ("train/epoch_loop.py", "train/test_epoch_loop.py"): {
        "an epoch begins again": ('        self._begun = state["begun"]\n', ""),
    },
    ("train/flow_manual.py", "train/test_flow_manual.py"): {
        "gradients that wait are taken for none": ('        self._waiting = state["waiting"]', "        pass"),
    },
    ("train/metrics.py", _LAW): {
        "results of the last evaluation forgotten": ('        self.evaluation = dict(state["evaluation"])\n', ""),
    },
    ("train/fit_loop.py", _LAW): {
        "an epoch is closed again": ('        self._closed = state["closed"]', "        pass"),
    },
    ("train/run_state.py", "train/test_checkpoints.py"): {
        "rows behind the checkpoint stay": ("if not is_measured][:steps]", "if not is_measured]"),
    },
    ("train/plateau.py", "train/test_plateau.py"): {
        "rates are told no evaluation": ("            scheduler.step(results[scheduler.metric])", "            pass"),
        "what was taken off becomes the base": (
            '            group.setdefault("initial_lr"',
            '            dict().setdefault("lr"',
        ),
    },
    ("train/optimizer_change.py", "train/test_optimizer_change.py"): {
        "new optimizers keep a rate of their own": (
            "        set_learning_rate(new[name], schedulers[name], value)",
            "        pass",
        ),
    },
    ("train/learning_rate.py", "train/test_optimizer_change.py"): {
        "warm-up begins anew": ('base * (float(then[number]["lr"]) / was) if was else base', "base"),
    },
    ("train/snapshot.py", "train/test_snapshot.py"): {
        "followers stay as they were": ("        _load_follower(follower, values)", "        pass"),
        "ties that came or went accepted": ("if were not in (None, shared):", "if False:"),
    },
    ("train/feed.py", "end_to_end/test_data_by_settings.py"): {
        "data of the epoch after an update": ('loaded.get("user") or self._user', "self._user"),
    },
    ("integrations/tensorboard.py", "integrations/test_tensorboard.py"): {
        "steps written twice": ("purge_step=first", "purge_step=None"),
        "rows of the checkpoint lost": ('if row["step"] >= first:', "if False:"),
    },
    ("train/sharding.py", "train/test_sharding.py"): {
        "gradients that wait are left behind": ("        if parameter.grad is not None:\n", "        if False:\n"),
    },
    ("discovery/scaling.py", "end_to_end/test_temperature.py"): {
        "masks bring no factor": ("        added = self._of(mask)\n", "        added = NONE\n"),
    },
}
