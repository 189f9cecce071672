"""Faults of the training engine; see `faults`."""

TRAINING: dict[tuple[str, str], dict[str, tuple[str, str]]] = {
    ("train/split_batch.py", "train/test_split_batch.py"): {
        "splits that all weigh the same": ("sum(counts[start : start + length]) / sum(counts)", "steps / total"),
        "packed rows in another order": ("        order = back.argsort()", "        order = back"),
        "packed rows that have ended kept in order": ("if order is not None and sizes[start] < sizes[0]:", "if False:"),
        "rest of a batch dropped": ("range(0, total, steps)", "range(0, total - steps + 1, steps)"),
        "undeclared entries stay whole": ("if pattern is None and leaf.has_axes:", "if False:"),
        "different lengths of time accepted": ("    if len(set(lengths)) > 1:", "    if False:"),
        "tensors hidden in objects stay whole": ("if leaf.is_opaque and (", "if False and ("),
    },
    ("train/carry.py", "train/test_carry.py"): {
        "carry keeps its graph": ("        return value.detach()\n", "        return value\n"),
        "packed carry keeps its graph": ("value._replace(data=value.data.detach())", "value"),
        "tensors hidden in a carry accepted": ("if holds(value, (torch.Tensor,)):", "if False:"),
    },
    ("train/containers.py", "train/test_containers.py"): {
        "container changed in place": ("    made = copy.copy(value)\n", "    made = value\n"),
    },
    ("train/setting_values.py", "train/test_setting_values.py"): {
        "values hold one step late": ("bisect_right(keys, point) - 1", "bisect_right(keys, point - 1) - 1"),
    },
    ("train/settings.py", "train/test_settings.py"): {
        "computed values not checked": ("_check_from(at, part, value, CHECKS[name])", "pass"),
        "values of tables not checked": ("            _check_from(repr(value), name, one, check)", "            pass"),
    },
    ("train/config_updates.py", "train/test_config_updates.py"): {
        "reset does nothing": ("changed.pop(key, None)", "pass"),
        "rates of other optimizers forgotten": ("_updated_rates(changed.get(key), value)", "dict(value)"),
        "update beside a table accepted": ("isinstance(was, ChangingSetting) and value is not RESET", "False"),
    },
    ("cli/script_settings.py", "cli/test_script_settings.py"): {
        "settings of the command line ignored": ("        values[name] = value\n", "        pass\n"),
        "command line wins over the script": ("if sources[name] == SCRIPT and", "if False and"),
    },
    ("cli/script.py", "cli/test_script.py cli/test_train.py"): {
        "misspelt names of a script ignored": ("    if misspelt:\n", "    if False:\n"),
        "settings at the top level ignored": ("not _is_in_settings(name, defined)", "False"),
        "callbacks of a script ignored": ('callbacks=[*names.get("callbacks", ()), *step_callback]', "callbacks=[]"),
    },
    ("train/optimizer_steps.py", "train/test_precision.py train/test_finite.py"): {
        "casts of old weights used again": ("            torch.clear_autocast_cache()", "            pass"),
        "clips scaled gradients": ("            scaling.unscale(name, optimizer)", "            pass"),
        "finite gradients of an infinite loss applied": ("scaled.detach() * 0 + 1", "None"),
        "infinite loss taken for an overflow": (
            "scaling is not None and scaling.loss_was_finite",
            "scaling is not None",
        ),
    },
    ("train/precision.py", "train/test_precision.py"): {
        "infinite losses forgotten by a save": ('[] if state["loss_was_finite"] else', "[] if True else"),
        "scale updated for every optimizer": ("        self._unscaled.add(name)", "        self.scaler.update()"),
        "gradients of another scale accepted": ("self._scaled_at.get(name, self._updates) != self._updates", "False"),
    },
    ("train/averages.py", "train/test_averages.py"): {
        "averages without a short decay at first": ("1 - min(decay, (1 + n) / (10 + n))", "1 - decay"),
        "averages stay in the model": ("            _copy(own, tensors)", "            pass"),
        "number of averages lost": ('        self.updates = state["updates"]', "        pass"),
        "averages rounded to half precision": (
            "torch.float32 if tensor.dtype in _HALF else tensor.dtype",
            "tensor.dtype",
        ),
        "masks averaged to no number": (" and bool(buffer.isfinite().all())", ""),
    },
    ("train/scheduler_state.py", "train/test_scheduler_state.py"): {
        "inner schedulers are not restored": ("        load_scheduler_state(one, state[key][_NESTED])", "        pass"),
        "longer schedule shortened by the saved one": ("if key in own and own[key] != state.get(key):", "if False:"),
    },
    ("train/epoch_loop.py", "train/test_precision.py train/test_averages.py"): {
        "scale never updated": ("                runtime.close_unit()", "                pass"),
        "averages advance for skipped updates": ("if outcome.updates and state", "if state"),
    },
    ("train/model_change.py", "train/test_model_change.py"): {
        "compiled code of old shapes kept": ("        dynamo.reset()", "        pass"),
    },
    ("train/runtime.py", "train/test_runtime.py"): {
        "frozen parameters stay as they were wrapped": (" and self._wrapped_for == trained(self.model)", ""),
    },
    ("train/sharding.py", "train/test_sharding.py"): {
        "changes of a sharded model lost": ("if _sizes(model) != _sizes(self._structure):", "if False:"),
    },
}
