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
}
