"""Faults of what is written, read and gone on from: see `faults`."""

CHECKPOINTS: dict[tuple[str, str], dict[str, tuple[str, str]]] = {
    ("checkpoint/storage.py", "checkpoint/test_storage.py"): {
        "ties stored twice": ("tensor.untyped_storage().data_ptr()", "index"),
        "shared memory cut beside an entry": (" // _ALIGNMENT * _ALIGNMENT", ""),
        "strides forgotten": ("if fills and not tensor.is_contiguous() else {}", "if False else {}"),
        "views reach beyond what is stored": ("offset + _reach(shape, stride) <= room", "True"),
    },
    ("checkpoint/encoding.py", "checkpoint/test_encoding.py"): {
        "keys of type int become texts": ("if all(type(key) is str for key in entries)", "if all(map(str, entries))"),
        "a dict that looks like a mark": (" and TAG not in entries:", ":"),
        "versions of modules lost": ('if hasattr(value, "_metadata"):', "if False:"),
    },
    ("checkpoint/shards.py", "checkpoint/test_folder.py"): {
        "content not compared": ('if _digest(path) != noted["sha256"]:', "if False:"),
        "size not compared": ('if size != noted["bytes"]:', "if False:"),
    },
    ("checkpoint/shards.py", "checkpoint/test_shards.py"): {
        "paths leave the folder": ("if not _NAME.fullmatch(name):", "if False:"),
        "files stay mapped": (".get_tensor(key).clone()", ".get_tensor(key)"),
    },
    ("checkpoint/manifest.py", "checkpoint/test_manifest.py"): {
        "a manifest that was changed": (' and _digest(_text(content)) == given["sha256"]', ""),
        "newer formats read": ("if version > FORMAT:", "if False:"),
    },
    ("checkpoint/folder.py", "checkpoint/test_folder.py"): {
        "written in its place": ("working = _hidden(target, _SAVING)", "working = target"),
        "an interrupted replacement thrown away": ('if match["stage"] == _REPLACED and', "if False and"),
        "deleted in its place": ("os.replace(path, gone)", "gone = path"),
    },
    ("checkpoint/retention.py", "checkpoint/test_retention.py"): {
        "the best not kept": ("kept |= {one.path for one in rated[: self.best]}", "pass"),
        "damaged checkpoints chosen": ("            verify(one.path)", "            pass"),
    },
    ("train/random_state.py", "train/test_random_state.py"): {
        "states of numpy forgotten": ('if numpy := sys.modules.get("numpy"):', "if numpy := None:"),
    },
    ("train/feed.py", "end_to_end/test_data_resume.py"): {
        "data made with other random states": ('            random_state.restore(loaded["random"])\n', ""),
        "batches fetched with other random states": ('                random_state.restore(pending["random"])\n', ""),
        "random states of the run moved by going on": (
            "            random_state.restore(now)\n\n    def _check",
            "            pass\n\n    def _check",
        ),
        "generators of loaders forgotten": ('if loaded is not None and loaded["loader"] is not None:', "if False:"),
        "state of a factory forgotten by the next save": ('"factory": loaded["factory"]}', '"factory": None}'),
        "one batch skipped too few": ("else skipped):", "else skipped - 1):"),
        "state of a loader behind the batch ahead": (
            "first.loader is None else first.loader",
            "first.loader is None else loader_state(self._iterable)",
        ),
    },
    ("train/feed.py", "train/test_feed.py"): {
        "a new batch size in another order": ('        random_state.restore(self._start["random"])\n', ""),
        "batches fetched in the last size": ('                self._batch_size = pending["batch_size"]\n', ""),
        "one-shot data skipped twice": ("isinstance(given, Iterator):", "False:"),
    },
    ("train/data_source.py", "train/test_batch_samples.py"): {
        "batch sizes trusted": ("and may_have_samples(batch, batch_size) else None", "else None"),
    },
}
