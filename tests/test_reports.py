"""What users reported of other tools, and what growkit has for each: a test with its mark, or the reason why not yet.

Rows are numbers of public reports on growing networks, on optimizer state, on changes inside a training loop, on
checkpoints, on callbacks, on truncated backpropagation and several optimizers, and on command lines.
"""

import ast
from pathlib import Path

TESTS = Path(__file__).resolve().parent

TESTED = "tested"
MUON = "Muon has no rules yet: refused"
COMMANDS = "the command line only has the demo and training yet"

ROWS = {"a": 25, "b": 16, "c": 15, "d": 14, "e": 16, "f": 13, "g": 10}
"""Number of reports of each section."""

REPORTS: dict[str, dict[str, tuple[str, str]]] = {
    "a": {
        "R002": ("convolutions without bias", TESTED),
        "R003": ("no gradient in new units", TESTED),
        "R004": ("residual tower kept nearly, not exactly", TESTED),
        "R007": ("neighbours changed too", TESTED),
        "R008": ("norms grown by another count", TESTED),
        "R010": ("activations with parameters; names after many growths", TESTED),
        "R012": ("branches of a concatenation coupled", TESTED),
        "R015": ("pixel shuffle", TESTED),
        "R016": ("linear layer seen as channels before a transposed convolution", TESTED),
        "R017": ("grouped convolutions", TESTED),
        "R019": ("stale numbers of heads", TESTED),
        "R021": ("one head of keys: silently nothing", TESTED),
        "R023": ("raw parameters guessed by their size", TESTED),
        "R025": ("new blocks beside frozen ones", TESTED),
        "R026": ("repeated blocks change the function", TESTED),
        "R028": ("lists per layer in a config", TESTED),
        "R030": ("grown weights drawn again by a later init hook", TESTED),
        "R032": ("cost of new vocabulary rows", TESTED),
        "R033": ("dtype of new entries", TESTED),
        "R035": ("silent shrinking", TESTED),
        "R036": ("one block object at several places", TESTED),
        "R038": ("kernel size is no width", TESTED),
        "R039": ("one output more in the middle of training", TESTED),
        "R042": ("old scores change with new classes", TESTED),
        "R044": ("which pairs of configs a command accepts", COMMANDS),
    },
    "b": {
        "R046": ("state of another shape noticed late", TESTED),
        "R047": ("order of parameters lost", TESTED),
        "R049": ("optimizer holds replaced parameters", TESTED),
        "R052": ("half-precision moments become float32", TESTED),
        "R053": ("quantised state copied blindly", TESTED),
        "R055": ("factored second moments", TESTED),
        "R058": ("dtype of moments after a change", TESTED),
        "R059": ("which parameters Muon takes", MUON),
        "R061": ("fused layers seen as one matrix", MUON),
        "R062": ("state keys written into the code", TESTED),
        "R064": ("settings of one group taken for all", TESTED),
        "R066": ("growth before the first step", TESTED),
        "R069": ("layout that the fused step takes", TESTED),
        "R073": ("lists of schedulers per group", TESTED),
        "R074": ("one value for two groups", TESTED),
        "R075": ("groups added in training cannot be loaded", TESTED),
    },
    "c": {
        "R078": ("unfreezing after wrapping hangs other ranks", TESTED),
        "R079": ("ranks drift apart after unfreezing", TESTED),
        "R083": ("update counter of an average", TESTED),
        "R084": ("averaged weights written as the raw ones", TESTED),
        "R086": ("skipped step and loss scaling", TESTED),
        "R087": ("loss scale not restored", TESTED),
        "R089": ("parametrised weights", TESTED),
        "R090": ("prefix of compiled models in keys", TESTED),
        "R093": ("compiled for the old shapes", TESTED),
        "R096": ("patched forward of a copy calls the original", TESTED),
        "R099": ("direction of a tie in a file", TESTED),
        "R100": ("frozen parameters become trainable", TESTED),
        "R101": ("model changed between forward and backward", TESTED),
        "R103": ("subset of parameters lost by wrapping", TESTED),
        "R104": ("optimizer made before wrapping", TESTED),
    },
    "d": {
        "R105": ("tied tensors in a file", TESTED),
        "R108": ("tensors that are not contiguous", TESTED),
        "R110": ("extra state that is no tensor", TESTED),
        "R111": ("metadata lost", TESTED),
        "R114": ("file still mapped", TESTED),
        "R115": ("killed while saving", TESTED),
        "R117": ("half-written folder taken for the latest", TESTED),
        "R120": ("stray shards", TESTED),
        "R122": ("code in pickles", TESTED),
        "R124": ("defaults changed between versions", TESTED),
        "R126": ("samples lost or repeated inside an epoch", TESTED),
        "R127": ("random states not restored", TESTED),
        "R129": ("almost nothing loaded, no message", TESTED),
        "R132": ("truncated files", TESTED),
    },
    "e": {
        "R134": ("steps that a counter does not see", TESTED),
        "R135": ("rule for saving never fires", TESTED),
        "R137": ("no way to change data on a metric", TESTED),
        "R138": ("loader made once too often", TESTED),
        "R140": ("last window dropped, accumulation of 0", TESTED),
        "R142": ("accumulated gradients lost by saving", TESTED),
        "R143": ("position computed from optimizer steps", TESTED),
        "R146": ("finished epoch repeated", TESTED),
        "R148": ("order of callbacks", TESTED),
        "R151": ("optimizer replaced in a callback", TESTED),
        "R152": ("learning rate of the command line lost", TESTED),
        "R153": ("scheduler restored with the old optimizer", TESTED),
        "R155": ("more epochs at resume", TESTED),
        "R157": ("callback that leaves early on some ranks", TESTED),
        "R159": ("the same samples in each epoch", TESTED),
        "R160": ("counters lost with the optimizer", TESTED),
    },
    "f": {
        "R162": ("length of pieces ignored", TESTED),
        "R163": ("evaluation of pieces", TESTED),
        "R164": ("documented example does not run", TESTED),
        "R166": ("carried state of a decoder", TESTED),
        "R169": ("time axis of a batch", TESTED),
        "R170": ("0 and None as lengths", TESTED),
        "R172": ("gradients of overlapping pieces", TESTED),
        "R173": ("smaller last batch and carried state", TESTED),
        "R176": ("clipping of scaled gradients", TESTED),
        "R178": ("parameters of two optimizers", TESTED),
        "R179": ("backward after a step", TESTED),
        "R181": ("loss not divided by the window", TESTED),
        "R182": ("backward a second time", TESTED),
    },
    "g": {
        "R183": ("model twice in memory", TESTED),
        "R185": ("whole file read for one tensor", TESTED),
        "R187": ("killed without a message", TESTED),
        "R188": ("late errors of a file of settings", TESTED),
        "R189": ("config older than the tensors", TESTED),
        "R192": ("shapes that a stock class cannot express", TESTED),
        "R194": ("numbers in files of settings", TESTED),
        "R195": ("renaming onto an existing file", TESTED),
        "R197": ("paths taken for names", COMMANDS),
        "R199": ("no progress shown", COMMANDS),
    },
}


def marks(source: str) -> set[str]:
    """Rows that `pytest.mark.report(...)` names in a source text."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return {ast.literal_eval(call.args[0]) for call in calls if ast.unparse(call.func) == "pytest.mark.report"}


def all_marks() -> set[str]:
    return set().union(*(marks(path.read_text()) for path in TESTS.rglob("test_*.py") if path != Path(__file__)))


def rows() -> dict[str, str]:
    """What each row has."""
    return {row: has for section in REPORTS.values() for row, (_, has) in section.items()}


def test_no_report_is_missing() -> None:
    assert {section: len(reports) for section, reports in REPORTS.items()} == ROWS
    assert len(rows()) == sum(ROWS.values())


def test_every_report_that_is_tested_has_a_test() -> None:
    assert {row for row, has in rows().items() if has == TESTED} - all_marks() == set()


def test_every_mark_is_that_of_a_tested_report() -> None:
    """Else the number is wrong, or the reason for its delay is out of date."""
    assert {row for row in all_marks() if rows().get(row) != TESTED} == set()


def test_marks_are_found_where_they_may_stand() -> None:
    source = """
@pytest.mark.report("R1")
def test_one(): ...
@pytest.mark.slow
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.report("R2"))])
@pytest.mark.report("R3")
def test_two(x): ...
"""
    assert marks(source) == {"R1", "R2", "R3"}
