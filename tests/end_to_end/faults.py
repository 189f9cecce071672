"""Faults that the default tests must catch: where, what stands there, what is put there instead, and which tests fail.

A text is of one place in its file, so that a change of the code that moves it is noticed.
"""

from dataclasses import dataclass

from tests.end_to_end.faults_of_checkpoints import CHECKPOINTS
from tests.end_to_end.faults_of_corrections import CORRECTIONS
from tests.end_to_end.faults_of_discovery import DISCOVERY
from tests.end_to_end.faults_of_resume import RESUME
from tests.end_to_end.faults_of_training import TRAINING


@dataclass(frozen=True)
class Fault:
    """`old` becomes `new` in `growkit/<file>`, and `tests/<tests>` fail."""

    name: str
    file: str
    old: str
    new: str
    tests: str

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


_NOTHING = "pass"
_OTHER_DRAW = "{name: type(e)(e.name, e.dims, e.shape, e.bound, 'other') for name, e in resolved.edits.items()}"

_TABLE: dict[tuple[str, str], dict[str, tuple[str, str]]] = {
    # ------------------------------------------------------------------------------------------- maps, kernels
    ("maps/axis_map.py", "maps/test_axis_map.py"): {
        "share not divided": ("Role.CONSUMES: lambda m, n: n,", "Role.CONSUMES: lambda m, n: float(n != 0),"),
        "shares that do not sum to one accepted": ("if not isclose(total, 1.0, rel_tol=1e-12):", "if total <= 0:"),
        "variance not squared": ("Role.VARIANCE: lambda m, n: m * m,", "Role.VARIANCE: lambda m, n: m,"),
        "running mean not mapped": ("Role.MEAN: lambda m, n: m,", "Role.MEAN: lambda m, n: 1.0,"),
        "gain divided": ("Role.GAIN: lambda m, n: 1.0,", "Role.GAIN: lambda m, n: n,"),
        "gradient of a gain not divided": ("Role.GAIN: lambda m, n: n * m,", "Role.GAIN: lambda m, n: 1.0,"),
        "gradient factors of the value": ("rule = _GRADIENT[role]", "rule = _VALUE[role]"),
    },
    ("maps/lifting.py", "maps/test_lifting.py"): {
        "product in minor-major order": (
            "return major.source[i] * minor.old_size + minor.source[j]",
            "return minor.source[j] * major.old_size + major.source[i]",
        ),
        "gate halves grown as one block": ("        tuple(source),", "        tuple(sorted(source, key=NEW.__eq__)),"),
        "zero loses where two factors are new": ("Fill.ZERO if Fill.ZERO in both else both[0]", "both[0]"),
    },
    ("maps/methods/fresh.py", "maps/methods/test_fresh.py"): {
        "new consumer columns random": ("Role.CONSUMES: Fill.ZERO,", "Role.CONSUMES: Fill.RANDOM,"),
        "both sides zero": ("Role.PRODUCES: Fill.RANDOM,", "Role.PRODUCES: Fill.ZERO,"),
    },
    ("maps/methods/net2net.py", "maps/methods/test_net2net.py"): {
        "copies with equal shares for ever": ("0.5 + draw.random()", "1.0"),
    },
    ("maps/methods/zero_pad.py", "maps/methods/test_zero_pad.py"): {
        "padding taken for units that may hold anything": ("padded=True)", "padded=False)"),
    },
    ("kernels/gather.py", "kernels/test_gather.py"): {
        "dtype lost": ("torch.empty(shape, dtype=tensor.dtype, ", "torch.empty(shape, "),
        "memory format lost": ("            return format_", "            return torch.contiguous_format"),
        "factors forgotten where there are many runs": ("if any(factor != 1.0 for factor in factors):", "if False:"),
        "new positions hold what stood at the first": ("        if new:", "        if False:"),
    },
    # ---------------------------------------------------------------------------------------------- constraints
    ("constraints/norm.py", "constraints/test_norm.py"): {
        "unequal copies through a layer norm": (
            "if axis_map.uniform and axis_map.expand[0] == 1.0:",
            "if not axis_map.has_new:",
        ),
    },
    ("constraints/attention.py", "constraints/test_attention.py"): {
        "softmax axis admitted": (
            'never("a softmax runs over it, so every new unit would take from the old ones")',
            "unscaled_units",
        ),
        "head dim admitted": (
            'never("two activations are contracted over it, so copies would count twice in the sum")',
            "unscaled_units",
        ),
    },
    ("constraints/interface.py", "constraints/test_interface.py"): {
        "input axis grown": ('never("it is an input of the model: its size is that of the data")', "old_first"),
        "outputs in another order": ("if axis_map.source[:old] == tuple(range(old)) and", "if"),
    },
    ("constraints/activation.py", "constraints/test_activation.py"): {
        "scaled units through a nonlinear function": ("u != NEW and m != 1.0 for u", "u != NEW and m < 0 for u"),
        "padding through any function": ("if axis_map.has_new and axis_map.padded:", "if False:"),
    },
    ("constraints/table.py", "constraints/test_table.py"): {
        "unknown passage admitted": (
            'never(f"nothing is known about growth through {kind!r}")',
            "activation.unscaled",
        ),
    },
    # ----------------------------------------------------------------------------------------------- optimizers
    ("optim/adam.py", "optim/test_adam.py"): {
        "second moment with factors of the first": (
            '    "exp_avg_sq": Graded(degree=2)',
            '    "exp_avg_sq": Graded(degree=1)',
        ),
        "largest second moment with factors of the first": (
            '"max_exp_avg_sq": Graded(degree=2)',
            '"max_exp_avg_sq": Graded(degree=1)',
        ),
        "coupled decay taken for decoupled": ('group["weight_decay"] != 0 and not group.get(', "group.get("),
    },
    ("optim/adam.py", "optim/test_factors.py"): {
        "update of Adam taken for linear": (
            "_adam_couples_decay, update_degree=0",
            "_adam_couples_decay, update_degree=1",
        ),
    },
    ("optim/rules.py", "optim/test_rules.py"): {
        "step shared between parameters": ("slot.clone() if isinstance(slot, Tensor) else slot", "slot"),
        "new second moments zero": ('if self.degree % 2 == 0 and new_state == "mean":', "if False:"),
    },
    ("optim/remap.py", "optim/test_sgd.py"): {
        "weight decay reported exact": ("and not _values_move_like_gradients(grown)", "and False"),
    },
    ("optim/check.py", "optim/test_check.py"): {
        "unknown optimizer accepted": (
            "spec = find_spec(kind)",
            "spec = find_spec(kind) or find_spec(torch.optim.Adam)",
        ),
        "state of another shape accepted": ("if value is not None and shape != expected:", "if False:"),
    },
    ("optim/table.py", "optim/test_table.py"): {
        "subclass with a step of its own trusted": ("spec if _same_step(optimizer_type, base) else None", "spec"),
    },
    ("optim/factors.py", "optim/test_factors.py"): {
        "learning rate factor of the last dim only": ("factor *= ratios.pop()", "factor = ratios.pop()"),
    },
    ("growth/slots.py", "growth/test_slots.py"): {
        "groups not updated": ('journal.set_element(group["params"], place.position, new)', _NOTHING),
        "state of a grown parameter lost": ("journal.set_item(optimizer.state, new, state)", _NOTHING),
        "adopted parameters at the end": (
            "max(before, key=lambda i: order[members[i]]) + 1 if before else 0",
            "len(members)",
        ),
        "adopted by every group": ("for p, source in sources.items() if source in held)", "for p in sources)"),
        "names of groups not kept": (
            "[names.get(parameter, old) for parameter, old in pairs]",
            "[o for _, o in pairs]",
        ),
    },
    # --------------------------------------------------------------------------------------------------- growth
    ("growth/slots.py", "growth/test_api.py"): {
        "rollback forgets the optimizer": ("journal.del_item(optimizer.state, old)", "del optimizer.state[old]"),
    },
    ("growth/replace.py", "growth/test_replace.py"): {
        "tie broken": ("for store, attribute in places[id(old)]:", "for store, attribute in places[id(old)][:1]:"),
        "requires_grad lost": ("nn.Parameter(new, old.requires_grad)", "nn.Parameter(new)"),
        "attributes of parameters lost": ("vars(new).update(vars(old))", _NOTHING),
        "new block shares tensors with its source": (
            "block = copy.deepcopy(source, {id(kept): kept for kept in shared})",
            "block = copy.copy(source)",
        ),
        "numbers of blocks left behind": ("not in (None, number)", "is Ellipsis"),
        "labels of new blocks shared with their source": (
            "str(Layout.parse(layouts[name]).rename(labels))",
            "layouts[name]",
        ),
        "names of moved blocks off by one": ("i.position <= int(index)", "i.position < int(index)"),
        "rollback forgets a buffer": (
            "journal.set_item(store, attribute, new)",
            "(journal if isinstance(new, nn.Parameter) else Journal()).set_item(store, attribute, new)",
        ),
        "rollback forgets a number": (
            "    journal.put(holder, step, written)",
            "    Journal(keep=False).put(holder, step, written)",
        ),
    },
    ("growth/journal.py", "growth/test_journal.py"): {
        "rollback in the order of the writes": ("self._undo.pop()()", "self._undo.pop(0)()"),
    },
    ("growth/transaction.py", "growth/test_followers.py growth/test_api.py"): {
        "numbers of the model stale": (
            "replace_numbers(model, (*resolved.plan.numbers, *resolved.plan.floats), journal)",
            _NOTHING,
        ),
    },
    ("growth/followers.py", "growth/test_followers.py"): {
        "numbers of a follower stale": ("replace_numbers(follower, (*plan.numbers, *plan.floats), journal)", _NOTHING),
        "follower drawn anew": (
            "replace_tensors(follower, resolved.edits, ",
            f"replace_tensors(follower, {_OTHER_DRAW}, ",
        ),
        "norm of a new block averaged": ("and not inner.startswith(bypassed)", ""),
    },
    ("growth/edits.py", "growth/test_edits.py"): {
        "shift of a gain not scaled": ("grown += self.shift * (factors - 1)", "pass"),
        "draws from the global generator": ("self.bound, generator=generator)", "self.bound)"),
        "draw key without the old shape": ("{key}/{name}/{'x'.join(map(str, old.shape))}", "{key}/{name}"),
        "draw key without the dim": ('f"{self.key}/{number}"', "self.key"),
        "zeros before draws": (
            "(Fill.RANDOM, Fill.ONE, Fill.ZERO, Fill.MEAN)",
            "(Fill.ZERO, Fill.ONE, Fill.RANDOM, Fill.MEAN)",
        ),
        "draws of one scale": ("1 / sqrt(max(1, prod(summed)))", "1.0"),
    },
    ("growth/depth.py", "growth/test_depth.py"): {
        "final norm not bypassed": (
            "Insertion(position, source.index, source.silenced, source.tail, labels)",
            "Insertion(position, source.index, source.silenced, (), labels)",
        ),
        "any norm at the end bypassed": ("[name for name in source.tail if name != _NORM]", "[]"),
        "blocks that are not residual deepened": ("if not source.residual or foreign:", "if foreign:"),
        "blocks with other terms deepened": ("if source.obstacle:", "if False:"),
    },
    ("growth/replace.py", "discovery/test_per_block.py"): {
        "entry of the next block": ("for source in step.sources]", "for source in sorted(step.sources)[::-1]]"),
    },
    ("discovery/per_block.py", "discovery/test_per_block.py"): {
        "any list of the length follows": ("and all(time // 2 == n for n, time in inside)", ""),
        "numbers of some blocks": ("all(ints.get(attribute) == i for i, ints in enumerate(found))", "True"),
    },
    ("discovery/counts.py", "discovery/test_counts.py"): {
        "counts taken for unused": ('"unused" if called == before else', '"unused" if called else'),
        "a count that is a number as well": (
            "counts = called == without and path not in numeric",
            "counts = called == without",
        ),
    },
    ("discovery/identity.py", "discovery/test_identity.py"): {
        "bias of a silenced layer kept": (
            "return self._product(op) | (zero(bias) if bias else frozenset())",
            "return self._product(op)",
        ),
        "bias of a norm kept": ('*(["bias"] if named.get("bias") is not None else [])', ""),
        "poles forgotten": ("if depends and poles:", "if False:"),
        "the stream in a narrower type": ("torch.promote_types(dtype, now) == now", "True"),
        "sigmoid keeps zero": ('"tanh", "sin"', '"tanh", "sigmoid", "sin"'),
    },
    ("growth/width.py", "growth/test_width.py"): {
        "factor rounded silently": ("if abs(exact - new) > 1e-6 or not isfinite(exact):", "if not isfinite(exact):"),
        "shrinking accepted": ("    if new < axis.size:", "    if new < 1:"),
        "multiple_of rounds down": ("ceil(round(exact / multiple_of, 9))", "int(exact // multiple_of)"),
        "ties not checked": ("    _check_ties(table, sizes)", ""),
        "one axis takes the last of two sizes": ("if sizes.get(axis.name, new) != new:", "if False:"),
    },
    ("growth/reference.py", "growth/test_verify.py"): {
        "tolerance of float64 a million times larger": ("EXACT = 1e-12", "EXACT = 1e-6"),
        "lower dtypes compared in themselves only": ("exact = runs(wide)", 'raise InputsError("", "", "")'),
        "train mode not run": ("way = replace(best, training=True)", "way = best"),
    },
    ("growth/reference.py", "growth/test_reference.py"): {
        "tolerance of rounding a million times larger": ("max(8 * rounding(a, b),", "max(8e6 * rounding(a, b),"),
        "constant outputs accepted": ("if is_constant(outputs):", "if False:"),
        "every weight taken for rounded": ("every if rounded is None else rounded", "every"),
    },
    ("growth/running.py", "growth/test_running.py"): {
        "frozen parts put in train mode": ("if root and (not inner or any(flag for _, flag in inner)):", "if False:"),
        "dropout drawn": ('return args[0].fill_(args[1] if len(args) > 1 else given.get("p", 0.5))', "pass"),
    },
    ("growth/outputs.py", "growth/test_outputs.py"): {
        "masked places set the scale": ("if size.max() >= 10**_GAP:", "if False:"),
    },
    ("growth/api.py", "end_to_end/test_what_is_verified.py"): {
        "fault of growkit where the model is random": ("_RANDOM if random else _A_SIZE", "_A_SIZE"),
    },
    ("growth/api.py", "growth/test_api.py"): {
        "second trace not compared": ("check_retrace(plan, ", "(lambda *_: None)(plan, "),
        "deviation not taken back": ("if not verification.passed:", "if False:"),
    },
    ("growth/resolve.py", "growth/test_resolve.py"): {
        "plan for another model accepted": ("    check_fingerprint(model, plan.fingerprint)", ""),
        "tensor hooks lost": ("    if hooks:", "    if False:"),
        "shared blocks deepened": ("if inside & outside:", "if False:"),
    },
    # ---------------------------------------------------------------------------------------------------- loops
    ("train/learning_rate.py", "train/test_learning_rate.py"): {
        "learning rate not applied": ('_set(group, "lr", rate)', _NOTHING),
    },
    ("train/window.py", "train/test_flow_automatic.py"): {
        "accumulation not divided": ("part if self.length == 1 else part / self.length", "part"),
    },
    ("train/flow_automatic.py", "train/test_flow_automatic.py"): {
        "optimizer steps inside a window": ("stepped = window.last and ", "stepped = "),
    },
    ("train/callbacks.py", "train/test_callbacks.py"): {
        "callback called twice": ("in calls or (None,):", "in [*calls, *calls] or (None,):"),
    },
    ("integrations/engine.py", "integrations/test_engine.py"): {
        "growth of one name done twice": ("        if name in self.done:", "        if False:"),
        "axes of the model before its growth": ("self._table = report.table", _NOTHING),
        "a model changed by hand not noticed": (" and not differences(model, fingerprint_of(self._table))", ""),
    },
}

FAULTS = tuple(
    Fault(name, file, old, new, tests)
    for table in (_TABLE, DISCOVERY, CORRECTIONS, TRAINING, CHECKPOINTS, RESUME)
    for (file, tests), edits in table.items()
    for name, (old, new) in edits.items()
)
