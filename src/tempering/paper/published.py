"""What the published figures show. These values were read by eye off the plots of the paper, to about 10 %.

The paper is Carlson, Stinson, Pakman and Paninski, *Partition Functions from Rao-Blackwellized Tempered Sampling*,
ICML 2016. Numbers that its text states are marked as such.
"""

FIGURE1_LOG_Z = (150.0, 170.0)  # log Ẑ_k lies between these; the weights of that RBM were not published

# log RMSE (natural) at 1100, 2000 and 4000 samples.
FIGURE2 = {
    "rts": (0.2, -0.5, -0.85),
    "mbar": (0.1, -0.6, -0.93),
    "ti_corrected": (0.2, -0.5, -0.95),
    "ti_trapezoid": (0.35, -0.25, -0.55),
    "ti_riemann": (0.35, -0.25, -0.55),
    "ti_rb": (0.35, -0.25, -0.55),
}

# RMSE by sweeps.
FIGURE3 = {
    "784×500": {
        "RTS": {1000: 0.42, 10_000: 0.11, 100_000: 0.05},
        "AIS": {1000: 1.05, 10_000: 0.42, 100_000: 0.06},
        "RAISE": {100_000: 0.6},  # above 2.5 before
    },
    "784×100": {
        "RTS": {1000: 0.63, 10_000: 0.33, 100_000: 0.12, 1_000_000: 0.04},
        "AIS": {1000: 1.4, 10_000: 0.8, 100_000: 0.2, 1_000_000: 0.05},
        "RAISE": {100_000: 0.9, 1_000_000: 0.5},
    },
}
FIGURE3_LOG_Z = {"784×500": 451.2, "784×100": 285.0}

# RMSE of 10,000 bootstrapped samples by K.
FIGURE4_RUNGS: tuple[int, ...] = (6, 11, 26, 125, 250, 500, 1000)
FIGURE4 = {
    "RTS": (1.6, 0.12, 0.065, 0.095, 0.09, 0.10, 0.10),
    "TS": (1.6, 0.12, 0.075, 0.16, 0.23, 0.35, 0.47),
    "MBAR": (6.0, 0.75, 0.28, 0.34, 0.33, 0.23, 0.35),
    "TI": (10.0, 0.33, 0.66, 0.40, 0.36, 0.36, 0.38),
    "TI-RB": (10.0, 0.28, 0.62, 0.25, 0.13, 0.12, 0.11),
}

# Mean log p(v) of training and validation rows by gradient updates.
FIGURE5 = {500: (-90.0, -96.0), 1000: (-82.0, -91.0), 2000: (-75.0, -89.0), 4000: (-68.0, -88.0), 8000: (-53.0, -91.0)}

FIGURE6_ERROR = {"adaptive": 0.0, "fixed": 4.5}  # of log Ẑ at β = 1: on the truth, and 4 to 5 nats above it

# RMSE by sweeps.
FIGURE7 = {
    "RTS": {2000: 16.0, 5000: 3.0, 10_000: 3.5, 100_000: 2.5},
    "AIS": {2000: 12.0, 5000: 8.0, 10_000: 7.0, 100_000: 2.0},
    "RAISE": {2000: 25.0, 5000: 18.0, 10_000: 15.0, 100_000: 7.0},
}
FIGURE7_KNOT = 0.62  # the β at which the transition matrix pinches

# RMSE by sweeps. The text says that RSD is about 10 % below RTS on 784×10, and no different on 784×200.
FIGURE8 = {
    "784×10": {
        "RTS": {1000: 0.17, 10_000: 0.055, 100_000: 0.017},
        "SD": {1000: 0.17, 10_000: 0.055, 100_000: 0.017},
        "RSD": {1000: 0.153, 10_000: 0.050, 100_000: 0.0153},
    },
    "784×200": {name: {1000: 0.6, 10_000: 0.28, 100_000: 0.12} for name in ("RTS", "SD", "RSD")},
}
