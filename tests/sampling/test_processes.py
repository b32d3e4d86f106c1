"""Several processes make one run: the same bits, one voice, and an end that all of them see."""

import hashlib
import json
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import tempering as tp
from launching import answer_of, ended_all, free_port, run_all, start, start_all, start_python

pytestmark = pytest.mark.timeout(1800)  # up to 15 processes, each of which compiles, on cores that others may use too

LAYOUTS = [(1, 1), (1, 2), (2, 1), (2, 2), (4, 1)]  # processes × devices of each
# 120 chains are three groups: two processes share them unevenly, and the fourth of four has none.
QUICK = ("--warmup", "iterations", "--chains", 120, "--sweeps", 64, "--rungs", 5, "--json")
TRAIN = (
    "--hidden",
    8,
    "--updates",
    20,
    "--chains",
    80,
    "--sweeps",
    6,
    "--rungs",
    8,
    "--batch",
    25,
    "--json",
    "--no-plot",
)


def arrays_of(file: Path) -> str:
    """A digest of all arrays of an npz file, but for the text that tells how long a run took, and how it was made."""
    digest = hashlib.sha256()
    with np.load(file) as archive:
        names = sorted(set(archive.files) - {"result"})
        assert len(names) > 2
        for name in names:
            digest.update(name.encode() + archive[name].tobytes())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> Path:
    """Two asymmetric clusters of bits."""
    rng, file = np.random.default_rng(4), tmp_path_factory.mktemp("rows") / "rows.npz"
    means = np.where(rng.integers(0, 2, (200, 1)), rng.uniform(0.1, 0.5, 16), rng.uniform(0.4, 0.9, 16))
    np.savez(file, (rng.random((200, 16)) < means).astype(np.uint8))
    return file


def test_two_processes_give_the_bits_of_one_and_one_voice(tmp_path, tempering):
    """Guards the shares of chains, what is gathered, and that process 0 alone writes and talks.

    The one is this process, with two devices.
    """
    one = answer_of([tempering("estimate", *QUICK, "--out", tmp_path / "one", "--devices", 2)])
    two = answer_of(run_all(2, 1, "estimate", *QUICK, "--out", tmp_path / "two"))
    assert one == two
    assert arrays_of(tmp_path / "one" / "result.npz") == arrays_of(tmp_path / "two" / "result.npz")


@pytest.mark.slow  # 15 processes, each of which compiles
@pytest.mark.parametrize("model", ["rbm:37x23:0.3", "mixture"])
def test_every_layout_gives_the_same_bits(tmp_path, model):
    """Guards fixed batches: 1 or 2 devices of 1, 2 or 4 processes, with the default warm-up."""
    digests = set()
    for processes, devices in LAYOUTS:
        out = tmp_path / f"{processes}x{devices}"
        how = ("--chains", 220, "--sweeps", 60, "--rungs", 12, "--json", "--out", out)
        told = answer_of(run_all(processes, devices, "estimate", model, *how))
        digests.add((json.dumps(told, sort_keys=True), arrays_of(out / "result.npz")))
    assert len(digests) == 1


@pytest.mark.slow  # 15 processes with a large model
def test_every_layout_gives_the_same_bits_of_a_trained_rbm(tmp_path, shared_data):
    """The same on 784×500 weights of MNIST."""
    digests = set()
    for processes, devices in LAYOUTS:
        out = tmp_path / f"{processes}x{devices}"
        how = ("--warmup", "iterations", "--chains", 200, "--sweeps", 32, "--rungs", 10, "--json", "--out", out)
        told = answer_of(run_all(processes, devices, "estimate", shared_data / "rbm_mnist_cd25_500.npz", *how))
        digests.add((json.dumps(told, sort_keys=True), arrays_of(out / "result.npz")))
    assert len(digests) == 1


@pytest.mark.slow  # 15 processes, each of which compiles
@pytest.mark.parametrize("method", ["tempered", "pcd"])
def test_every_layout_trains_to_the_same_bits(tmp_path, rows, method):
    """Guards the shares of training: batches of one shape, and moments added in the order of shares."""
    digests = set()
    for processes, devices in LAYOUTS:
        out = tmp_path / f"{processes}x{devices}"
        answer_of(run_all(processes, devices, "train", rows, *TRAIN, "--method", method, "--out", out))
        digests.add((arrays_of(out / "model.npz"), (out / "metrics.jsonl").read_text()))
    assert len(digests) == 1


def assert_lost(status: int, errors: str) -> None:
    """A process that has lost another ends with one line and a status of its own."""
    assert status == 4, errors
    assert errors.startswith("Error: another process of this run has ended")
    assert errors.count("\n") == 1


JOINED = """
import sys, time
from tempering.cli import common, processes
processes.join_processes(sys.argv[1], 2, int(sys.argv[2]))
print("joined", file=sys.stderr, flush=True)
time.sleep(120)
"""


def test_a_process_that_jax_would_abort_ends_with_one_line():
    """Process 0 dies while the other computes by itself. Kills: JAX's own end, status -6 after a page of words."""
    address = f"127.0.0.1:{free_port()}"
    processes = [start_python("-c", JOINED, address, rank) for rank in range(2)]
    try:
        for process in processes:
            assert process.stderr.readline() == "joined\n"
        processes[0].kill()
        _, errors = processes[1].communicate(timeout=60)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert_lost(processes[1].returncode, errors)


def is_under_way(out: Path) -> bool:
    """Whether a run has something to resume: two checkpoints, or the first one and twenty updates."""
    metrics = out / "metrics.jsonl"
    has_rows = metrics.exists() and metrics.read_bytes().count(b"\n") >= 20
    return (out / "checkpoint.previous").exists() or has_rows


@pytest.mark.slow  # several processes, and the wait for the end of those that are left
@pytest.mark.parametrize(("command", "killed"), [("estimate", 1), ("estimate", 0), ("train", 1), ("train", 0)])
def test_a_process_that_dies_ends_the_others_and_the_run_is_resumed(tmp_path, rows, command, killed):
    """Guards the end of a run whose worker is gone, and resuming it with another number of processes."""
    quick = (
        ["estimate", *QUICK, "--sweeps", 4000] if command == "estimate" else ["train", rows, *TRAIN, "--updates", 1500]
    )
    result = "result.npz" if command == "estimate" else "model.npz"
    answer_of(run_all(1, 1, *quick, "--out", tmp_path / "whole"))
    out = tmp_path / "cut"
    processes = start_all(2, 1, *quick, "--out", out)
    try:
        while not is_under_way(out):
            assert all(process.poll() is None for process in processes), "it has ended before it could be killed"
            time.sleep(0.05)
        processes[killed].send_signal(signal.SIGKILL)
        at = time.monotonic()
        _, errors = processes[1 - killed].communicate(timeout=60)
        assert time.monotonic() - at < 60
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert_lost(processes[1 - killed].returncode, errors)
    assert "Resume with: tempering" in errors
    answer_of(run_all(1, 2, *quick, "--resume", "--out", out))
    assert arrays_of(out / result) == arrays_of(tmp_path / "whole" / result)


@pytest.mark.slow  # two processes
def test_a_mistake_is_told_once(tmp_path):
    """Guards refusals: all processes end with status 2, and process 0 alone says why."""
    ended = run_all(2, 1, "estimate", tmp_path / "missing.npz")
    assert [status for status, _, _ in ended] == [2, 2]
    assert ended[0][2].startswith("Error: ")
    assert ended[0][2].count("\n") == 1
    assert ended[1][1:] == ("", "")


@pytest.mark.parametrize(("arguments", "words"), [
    (("--coordinator", "127.0.0.1:1234"), "belong together"),
    (("--num-processes", 2), "belong together"),
    (("--coordinator", "here", "--num-processes", 2, "--process-id", 0), "HOST:PORT"),
    (("--coordinator", "here:1234", "--num-processes", 0, "--process-id", 0), "--num-processes"),
    (("--coordinator", "here:1234", "--num-processes", 2, "--process-id", 2), "from 0 to 1"),
])  # fmt: skip
def test_flags_that_make_no_run_are_refused(tempering, arguments, words):
    """Guards the door: what cannot join is refused before anything waits."""
    status, out, err = tempering("estimate", "--devices", 2, *arguments)
    assert (status, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.slow  # two processes
@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_processes_of_a_launcher_find_each_other(tmp_path, launcher):
    """Guards the detection by JAX: what srun and mpirun tell their processes is all that is needed."""
    port = free_port()
    each = []
    for rank in range(2):
        if launcher == "srun":
            told = {"JOB_ID": 7, "STEP_NODELIST": "localhost", "NTASKS": 2, "STEP_NUM_TASKS": 2, "PROCID": rank}
            told = {f"SLURM_{name}": str(value) for name, value in (told | {"LOCALID": rank}).items()}
        else:
            told = {"SIZE": 2, "RANK": rank, "LOCAL_RANK": rank}
            told = {f"OMPI_COMM_WORLD_{name}": str(value) for name, value in told.items()}
            told["OMPI_MCA_orte_hnp_uri"] = "1531576320.0;tcp://127.0.0.1:34911"
        each.append({**told, "JAX_COORDINATOR_PORT": str(port)})
    arguments = ("estimate", *QUICK, "--devices", 1)
    ended = ended_all([start(arguments, environment) for environment in each])
    assert answer_of(ended) == answer_of(run_all(1, 1, "estimate", *QUICK))


PROGRAM = """
import sys, jax
jax.config.update("jax_num_cpu_devices", 1)
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
import tempering as tp
result = tp.estimate(tp.paper_mixture(), num_chains=120, num_sweeps=20, num_rungs=5, progress=False)
print("answer", result.log_z, result.std_error, file=sys.stderr)
"""


@pytest.mark.slow  # two processes
def test_a_program_that_joined_processes_itself_gets_the_same_answer_in_each():
    """Guards `tp.estimate` after `jax.distributed.initialize`: each process has the whole answer, that of one alone."""
    address = f"127.0.0.1:{free_port()}"
    ended = ended_all([start_python("-c", PROGRAM, address, rank) for rank in range(2)])
    answers = {line for _, _, err in ended for line in err.splitlines() if line.startswith("answer")}
    result = tp.estimate(tp.paper_mixture(), num_chains=120, num_sweeps=20, num_rungs=5, progress=False)
    assert answers == {f"answer {result.log_z} {result.std_error}"}, ended
