"""Stopping and resuming: the same bits as without a stop, and a clear line about what cannot be resumed."""

import contextlib
import hashlib
import io
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering._errors import RecoveryWarning
from tempering.api import Interrupted
from tempering.sampling.directory import CheckpointError, RunDirectory, write_atomically

MAGIC = b"tempering checkpoint 2 "
WARMUPS = {
    "sequential": tp.SequentialStart(
        step_length=0.3,
        stretch_steps=1,
        num_particles=20,
        num_gibbs_particles=20,
        min_equilibration=2,
        min_gibbs_equilibration=2,
    ),
    "annealed": tp.AnnealedStart(anneal_steps=4, equilibration_steps=(2, 2)),
    "annealed both ways": tp.AnnealedStart(anneal_steps=4, equilibration_steps=(2, 2), returns=True),
    "iterations": tp.InitialIterations(steps=4, max_iterations=2),
}
QUICK = {"num_chains": 20, "num_sweeps": 6, "num_rungs": 4, "seed": 3, "warmup": WARMUPS["annealed"]}


def small_rbm(shift=0.0) -> tp.RBM:
    rng = np.random.default_rng(1)
    return tp.RBM(rng.normal(shift, 0.8, (6, 4)), rng.normal(size=6), rng.normal(size=4))


def quick(out=None, *, rbm=None, **changes) -> tp.Result:
    return tp.estimate(rbm or small_rbm(), "uniform", out=out, **{**QUICK, **changes})


def stop(progress) -> bool:
    return True


def begun(directory: Path) -> Path:
    """A directory with a run that was stopped after its first chunk."""
    with pytest.raises(Interrupted):
        quick(directory, watch=stop)
    return directory


def refusal(*args, **kwargs) -> str:
    """The one line with which a run is refused."""
    with pytest.raises(CheckpointError) as caught:
        quick(*args, **kwargs)
    message = str(caught.value)
    assert message.isprintable()
    assert message.endswith(".")
    return message


def answer(result):
    """Everything about a result that must not depend on how the run was cut."""
    arrays = (result.log_z_by_rung.values, result.log_z_by_rung.std_errors, result.recording.transition_counts)
    about = result.to_dict()
    del about["seconds"], about["settings"]  # which say how far a run was to go, and in what pieces
    return about, [array.tobytes() for array in arrays]


# The same bits.


# What "rsd" keeps, beside all that "rts" does, is kept while sampling, after any warm-up.
@pytest.mark.parametrize(
    ("warmup", "method"),
    [
        pytest.param(warmup, method, marks=[pytest.mark.slow] * ((method == "rsd") != (warmup == "annealed")))
        for warmup, method in itertools.product(WARMUPS, ("rts", "rsd"))
    ],
)
def test_a_run_stopped_at_every_chunk_is_the_uninterrupted_run(tmp_path, warmup, method):
    """Guards saving and restoring each kind of stage, at its beginning, in its middle and at its end."""
    how = {"warmup": WARMUPS[warmup], "method": method}
    whole = quick(**how)
    assert answer(quick(tmp_path / "whole", chunk_sweeps=10**6, **how)) == answer(whole)
    for _ in range(whole.num_warmup_sweeps):
        with pytest.raises(Interrupted):
            quick(tmp_path / "cut", resume=True, watch=stop, **how)
    for num_sweeps in range(1, QUICK["num_sweeps"] + 1):
        result = quick(tmp_path / "cut", resume=True, watch=stop, **how)
        assert result.num_sweeps == num_sweeps
    assert answer(result) == answer(whole)
    assert answer(quick(tmp_path / "cut", resume=True, **how)) == answer(whole)  # a finished run, asked again


@pytest.mark.parametrize("mixing", [0.0, pytest.param(5.0, marks=pytest.mark.slow)], ids=["independent", "correlated"])
def test_a_run_stopped_while_climbing_goes_on_with_all_that_was_found(tmp_path, mixing):
    """Guards a stage whose arrays grow from one stretch to the next, tuned steps and a random number of leaps included.

    With independent coordinates the tempered stages have no factors of correlations, while climbing has: both forms of
    the move are in one run, and the other case is left to the study.
    Kills: arrays of the template's size, a schedule or weights that are made anew, keys that begin again, one form of
    the move for all stages.
    """
    whiten = np.diag([3.0, 1.0, 10.0]) + mixing * np.eye(3, k=1)
    model = tp.LogDensity(lambda x: -0.5 * jnp.sum((whiten @ (x - 1.0)) ** 2), tp.Normal(jnp.zeros(3), 2.0))
    how = {"num_chains": 20, "num_sweeps": 32, "seed": 5}
    seen = []
    whole = tp.estimate(model, watch=lambda progress: seen.append(progress.stage), **how)
    num_climbing = seen.count("climbing")
    assert num_climbing > 6
    assert seen.count("equilibrating") > 0
    stops = (1, num_climbing // 2, num_climbing, num_climbing + 1, seen.index("sampling") + 3)
    calls = itertools.count(1)
    for _ in stops:
        with suppress(Interrupted):
            tp.estimate(model, out=tmp_path, resume=True, watch=lambda _: next(calls) in stops, **how)
    assert next(calls) == stops[-1] + 1
    again = tp.estimate(model, out=tmp_path, resume=True, **how)
    assert answer(again) == answer(whole)
    assert again.betas.tobytes() == whole.betas.tobytes()
    assert again.acceptance.tobytes() == whole.acceptance.tobytes()


def test_a_run_is_resumed_where_blocks_were_joined(tmp_path, monkeypatch):
    """Guards block sizes that doubled before the stop, and a last block that is not yet full."""
    monkeypatch.setattr("tempering.stats.blocked._MAX_BLOCKS", 6)  # instead of 64, which would take many sweeps
    how = {"num_sweeps": 31, "chunk_sweeps": 5}
    whole = quick(**how)
    assert whole.recording.stats.num_draws[0].tolist() == [8, 8, 8, 7]
    part = quick(tmp_path, watch=lambda progress: progress.stage == "sampling", **how)
    for num_sweeps in (10, 15, 20, 25, 30, 31):
        part = quick(tmp_path, resume=True, watch=stop, **how)
        assert part.num_sweeps == num_sweeps
    assert answer(part) == answer(whole)


def test_the_words_of_the_settings_name_the_warmups():
    """Guards that the runs above are those of warmup="sequential", "annealed" and "iterations"."""
    for name, warmup in WARMUPS.items():
        if name == "annealed both ways":  # an option of the annealed start
            continue
        assert type(tp.api.Settings(warmup=name).make_warmup()) is type(warmup)


def test_resuming_an_empty_directory_begins(tmp_path):
    """Guards scripts that always say resume."""
    assert answer(quick(tmp_path / "new" / "deep", resume=True)) == answer(quick())
    written = sorted(os.listdir(tmp_path / "new" / "deep"))
    assert written == ["checkpoint", "checkpoint.previous", "lock", "result.json", "result.npz"]


def test_a_finished_run_goes_on_with_more_sweeps(tmp_path):
    """Guards extending a run: the same bits as if all sweeps had been asked for at once, and never fewer."""
    assert quick(tmp_path).num_sweeps == 6
    more = quick(tmp_path, resume=True, num_sweeps=9)
    assert answer(more) == answer(quick(num_sweeps=9))
    assert json.loads((tmp_path / "result.json").read_text())["num_sweeps"] == 9
    with pytest.raises(tp.InputError, match="has 9 sweeps already: give `num_sweeps=9` or more"):
        quick(tmp_path, resume=True, num_sweeps=8)


# What cannot be resumed.


@pytest.mark.parametrize(("changes", "named"), [
    ({"seed": 4}, "`seed` (3 there, 4 here)"),
    ({"num_chains": 21}, "`num_chains` (20 there, 21 here)"),
    ({"method": "ts"}, "`method` (auto there, ts here)"),
    ({"rung_weights": "exp:1"}, "`betas` or `rung_weights`"),
    ({"betas": "geometric"}, "`betas` or `rung_weights`"),
    ({"warmup": tp.AnnealedStart(anneal_steps=4, equilibration_steps=(2, 3))}, "`warmup`"),
    ({"rbm": small_rbm(0.1)}, "`model` or `base`"),
    ({"keep_draws": True}, "`keep_draws` (False there, True here)"),
    ({"expect": lambda x: x.v}, "`expect` (False there, True here)"),
])  # fmt: skip
def test_another_run_is_not_resumed(tmp_path, changes, named):
    """Guards against mixing two runs: the line names what differs, and nothing else."""
    message = refusal(begun(tmp_path), resume=True, **changes)
    assert f"it differs in {named}. Ask for the same, or choose" in message
    assert quick(tmp_path, resume=True).is_complete  # untouched by the refusal


def test_a_directory_with_a_run_is_not_overwritten(tmp_path):
    """Guards a run against being begun anew by mistake."""
    saved = (begun(tmp_path) / "checkpoint").read_bytes()
    assert "already holds a run" in refusal(tmp_path)
    assert (tmp_path / "checkpoint").read_bytes() == saved


def flipped(data: bytes, where: int) -> bytes:
    return data[:where] + bytes([data[where] ^ 1]) + data[where + 1 :]


@pytest.mark.parametrize("damage", [
    lambda data: flipped(data, 3), lambda data: flipped(data, len(MAGIC) + 5),
    lambda data: flipped(data, len(data) // 2), lambda data: flipped(data, len(data) - 1),
    lambda data: data[:-1], lambda data: data[: len(data) // 2],
    lambda data: data[: len(MAGIC)], lambda data: b"", lambda data: data + b"x", lambda data: b"hello\n" * 9,
    lambda data: data.replace(MAGIC, b"tempering checkpoint 9 "),
])  # fmt: skip
def test_a_damaged_checkpoint_is_refused(tmp_path, damage):
    """Guards against resuming from bytes that are not those that were written."""
    file = begun(tmp_path) / "checkpoint"
    file.write_bytes(damage(file.read_bytes()))
    message = refusal(tmp_path, resume=True)
    assert str(file) in message
    assert "is damaged" in message or "is not a checkpoint" in message


@pytest.mark.parametrize("damage", [lambda data: flipped(data, len(data) // 2), lambda data: data[:100]])
def test_the_checkpoint_before_a_damaged_one_is_used_and_that_is_said(tmp_path, damage):
    """Kills: a refusal where there is a good one, silence, and a good one that the damaged one replaces later."""
    calls = []
    with contextlib.suppress(Interrupted):
        quick(tmp_path, watch=lambda progress: calls.append(progress) or len(calls) == 8)
    file = tmp_path / "checkpoint"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.warns(RecoveryWarning, match=r"checkpoint is damaged: .* goes on from the checkpoint before it"):
        assert answer(quick(tmp_path, resume=True)) == answer(quick())
    for name in ("checkpoint", "checkpoint.previous"):
        (tmp_path / name).write_bytes(damage((tmp_path / name).read_bytes()))
    assert str(file) in refusal(tmp_path, resume=True)


def test_a_kill_between_two_renames_leaves_the_one_before(tmp_path):
    directory = begun(tmp_path)
    (directory / "checkpoint").rename(directory / "checkpoint.previous")
    assert "already holds a run" in refusal(tmp_path)
    assert answer(quick(tmp_path, resume=True)) == answer(quick())


def with_body(file: Path, change, save=np.savez) -> None:
    """Rewrite a checkpoint's arrays, with the right checksum."""
    with np.load(io.BytesIO(file.read_bytes().partition(b"\n")[2])) as archive:
        arrays = dict(archive)
    body = io.BytesIO()
    save(body, **change(arrays))
    digest = hashlib.sha256(body.getvalue()).hexdigest().encode()
    file.write_bytes(MAGIC + digest + b"\n" + body.getvalue())


def about(arrays, **changes):
    text = json.dumps(json.loads(arrays["about"].tobytes()) | changes)
    return {**arrays, "about": np.frombuffer(text.encode(), np.uint8)}


class Bomb:
    """Says so if it is ever unpickled."""

    def __reduce__(self):
        return print, ("unpickled",)


@pytest.mark.parametrize("change", [
    lambda a: {**a, "states.0": np.array([Bomb()], object)},
    lambda a: {"about": np.array([Bomb()], object)},
    lambda a: {"about": a["about"]},
    lambda a: {name: array for name, array in a.items() if name != "about"},
    lambda a: {**a, "about": a["about"][:-9]},
    lambda a: {**a, "states.0": np.array(["text"])},
    lambda a: about(a, identity=None),
    lambda a: about(a, warmup={"nonsense": 1}),
])  # fmt: skip
def test_a_body_that_nobody_here_wrote_is_refused(tmp_path, capfd, change):
    """Guards against unpickling, and against tracebacks from a checkpoint whose checksum is right."""
    file = begun(tmp_path) / "checkpoint"
    with_body(file, change)
    assert str(file) in refusal(tmp_path, resume=True)
    assert "unpickled" not in capfd.readouterr().out


def test_a_body_that_is_no_archive_is_refused(tmp_path):
    """Guards NumPy's own complaints about bytes that are neither npz nor npy."""
    file = begun(tmp_path) / "checkpoint"
    file.write_bytes(MAGIC + hashlib.sha256(b"hello").hexdigest().encode() + b"\nhello")
    assert str(file) in refusal(tmp_path, resume=True)


def test_a_body_that_would_fill_the_memory_is_refused(tmp_path):
    """A run does not compress its checkpoints. Kills: arrays that are unpacked, however large, before anyone looks."""
    file = begun(tmp_path) / "checkpoint"
    with_body(file, lambda a: {**a, "more": np.zeros(10**6)}, save=np.savez_compressed)
    assert "it would take" in refusal(tmp_path, resume=True)


# Directories.


def test_one_run_at_a_time(tmp_path):
    """Guards the lock: refused while another run is inside, welcome once it has left."""
    seen = []
    quick(tmp_path, watch=lambda progress: seen.append(refusal(tmp_path, resume=True)) if not seen else None)
    assert "in use by another run" in seen[0]
    assert quick(tmp_path, resume=True).is_complete


def test_a_refusal_leaves_no_lock_behind(tmp_path):
    """Guards the lock against staying with a run that was refused or failed."""
    begun(tmp_path)
    refusal(tmp_path)
    refusal(tmp_path, resume=True, seed=9)
    with RunDirectory(tmp_path, {}, resume=True):
        assert "in use" in refusal(tmp_path, resume=True)
    assert quick(tmp_path, resume=True).is_complete


def test_a_directory_that_cannot_be_one(tmp_path):
    """Guards the file that is in the way, the long name and the checkpoint that is itself a directory."""
    (tmp_path / "file").touch()
    for bad in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("x" * 300)):
        assert "cannot be used as a directory" in refusal(bad)
    (tmp_path / "odd" / "checkpoint").mkdir(parents=True)
    assert "already holds a run" in refusal(tmp_path / "odd")
    assert "cannot be read" in refusal(tmp_path / "odd", resume=True)


def test_a_directory_that_is_not_writable(tmp_path):
    """Guards against a traceback where the user may not write."""
    closed = Path("/sys") if os.geteuid() == 0 else tmp_path / "closed"  # root may write nearly anywhere
    if closed == tmp_path / "closed":
        closed.mkdir(mode=0o500)
    elif not closed.is_dir():
        pytest.skip("root may write everywhere here")
    assert "cannot be used as a directory" in refusal(closed / "run")


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    """Guards a run's last good state: a write that fails is one line, and what was there stays."""
    file = tmp_path / "checkpoint"
    write_atomically(file, b"old")
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(CheckpointError, match="cannot be written: No space left on device"):
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["checkpoint"]


# Kills.


# The shapes of the processes in test_cli.py, so that they share compiled programs.
COMMAND = ("estimate", "--chains", "20", "--sweeps", "64", "--rungs", "20", "--seed", "5", "--json", "--out")


@pytest.fixture
def launch():
    """Starts the command line in a process of its own."""

    def start(*arguments):
        command = [sys.executable, "-m", "tempering", *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    return start


def time_written(file: Path) -> int | None:
    return file.stat().st_mtime_ns if file.exists() else None


@pytest.mark.slow  # runs that stop at every chunk go on to the same bits in `make test`
@pytest.mark.parametrize(("num_kills", "warmup"), [(1, "iterations"), (20, "annealed")])
def test_a_run_killed_again_and_again_ends_with_the_same_answer(tmp_path, tempering, launch, num_kills, warmup):
    """Guards every moment of a run, writing included: SIGKILL, resume, and in the end the same bits."""
    how = ("--warmup", warmup)
    whole = json.loads(tempering(*COMMAND, tmp_path / "whole", *how, "--devices", 2)[1])  # in this process
    rng, out, kills = random.Random(num_kills), tmp_path / "killed", 0
    for _ in range(num_kills):
        before = time_written(out / "checkpoint")
        process = launch(*COMMAND, out, *how, "--resume")
        while time_written(out / "checkpoint") == before and process.poll() is None:
            time.sleep(0.001)  # until it has come further
        time.sleep(rng.choice([0.0, 0.01, 0.05]) * rng.random())
        process.kill()
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
    assert kills >= 1, "it finished too soon: give it more sweeps"
    ended = json.loads(launch(*COMMAND, out, *how, "--resume").communicate()[0])
    for told in (whole, ended):  # how long it took, and how it was asked for
        del told["seconds"], told["settings"], told["command"]
    assert ended == whole


@pytest.mark.parametrize("size", [1e10, -1e10], ids=["forwards", "backwards"])
def test_a_clock_that_jumps_changes_nothing(tmp_path, monkeypatch, size):
    """Kills: the time of day, for how long a run has taken, in place of a clock that only goes on."""
    whole = quick(tmp_path / "whole", max_seconds=1e6)
    days = itertools.count(time.time(), size)
    monkeypatch.setattr(time, "time", lambda: next(days))
    jumped = quick(tmp_path / "jumped", max_seconds=1e6)
    assert jumped.is_complete
    assert jumped.log_z == whole.log_z
    assert 0 < jumped.seconds < 1e6
    late = quick(tmp_path / "late", max_seconds=1e-9)
    assert late.num_sweeps < whole.num_sweeps
    again = quick(tmp_path / "late", max_seconds=1e6, resume=True)
    assert again.log_z == whole.log_z
