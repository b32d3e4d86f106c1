"""Arguments of the library in the words of the command line."""

import re

_FLAGS = {
    "num_chains": "--chains", "num_sweeps": "--sweeps", "num_rungs": "--rungs", "betas": "--ladder",
    "rung_weights": "--rung-weights", "warmup": "--warmup", "method": "--method", "methods": "--methods",
    "seed": "--seed", "target_error": "--target-error", "max_sweeps": "--max-sweeps", "max_seconds": "--max-time",
    "chunk_sweeps": "--chunk", "out": "--out", "resume": "--resume", "base": "--base", "data": "--data",
    "budget": "--budget", "repeats": "--repeats", "truth": "--truth", "num_hidden": "--hidden",
    "num_updates": "--updates", "learning_rate": "--lr", "batch_size": "--batch", "weight_decay": "--decay",
    "optimizer": "--optimizer", "alpha": "--alpha", "is_tracked": "--track", "track_every": "--track-every",
    "follow_every": "--follow-every", "pretrain": "--pretrain", "check": "--check", "early_stop": "--early-stop",
    "valid": "--valid", "binarize": "--binarize", "names": "--names", "patience": "--patience",
    "num_visible": "--image", "witnesses": "--witnesses", "data_dir": "--data-dir",
    "keep_draws": "--report", "log_events": "--events", "shape": "--image",
}  # fmt: skip
_CALLS = {
    "`base=tp.Normal(mean, std)`": "base=tp.Normal(mean, std) in its file",
    "`log_z_guess`": "the guess of log Z",
    ", or an object such as tp.SequentialStart()": "",
    "exp:2, or log r_k": "exp:2",
    "e.g. numpy.linspace(0, 1, 100)": "such as 0,0.5,1",
    "geometric_betas(smallest=...)": "SMALLEST of --ladder geometric:SMALLEST",
    "power_betas(power=...)": "P of --ladder power:P",
    "ends_log_prior(share=...)": "SHARE of --rung-weights ends:SHARE",
    "`model`": "MODEL",
    "`move=tp.HMC(0.01)`": "move=tp.HMC(0.01) in Python",
    "`tp.MomentAveragedRBM.fitted(rbm, base)`": "--path moments",
    "`tp.MomentAveragedRBM.fitted(rbm, data=data)`": "--path moments:20 or --base FILE",
}
_ARGUMENT = re.compile(rf"`({'|'.join(_FLAGS)})(?:=([^`]*))?`")


def in_flags(text: str) -> str:
    """A message of the library as the command line says it: `num_sweeps=4000` becomes --sweeps 4000."""

    def flag(found: re.Match[str]) -> str:
        name, value = found.groups()
        if value is None or value == "True":
            return _FLAGS[name]
        return f"{_FLAGS[name]} {'FILE' if value == 'data' else value.strip(chr(34))}"  # arrays come from files here

    for call, words in _CALLS.items():
        text = text.replace(call, words)
    return _ARGUMENT.sub(flag, text)
