"""Every method on the 784×20 MNIST RBM, whose log Z is exact: errors and coverage at a matched number of sweeps.

    python experiments/side_by_side.py [--sweeps 2000] [--repeats 50]

The same as `tempering compare rbm_mnist_small.npz:20 --base mnist_binarized.npz --sweeps 2000 --repeats 50`. Prints a
table and writes benchmarks/results/side_by_side.json.
"""

import argparse

import repeats

import tempering as tp


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--methods", default="all")
    arguments = parser.parse_args()
    repeats.use_all_cores()
    rbm = tp.load(f"{repeats.DATA / 'rbm_mnist_small.npz'}:20")
    data = tp.load_data(repeats.DATA / "mnist_binarized.npz", num_visible=784)
    found = tp.compare(rbm, data, methods=arguments.methods, num_sweeps=arguments.sweeps, repeats=arguments.repeats)
    summaries = repeats.compared(found)
    repeats.print_table(summaries)
    repeats.write("side_by_side", summaries, {"comparison": [found.to_dict()]})


if __name__ == "__main__":
    main()
