#!/usr/bin/env python3
"""Seconds of whole trainings that have the device to themselves, from the time of a few of their epochs.

    bench/alone.py results/healthy/alone.csv ROWS:REGIMES ... [--recipes DIR] [--device cuda] [--precision bf16]
    bench/alone.py results/healthy/alone.csv cifar10-resnet44:sb,lb,lb-sharp-m512-r10-late25 cifar10-c1,cifar100-c1:sb,lb

ROWS are recipes of DIR (default recipes/healthy) whose epochs take equally long: the first is timed, the others get its
seconds. REGIMES are regimes or variants. Each is begun with its own settings and stopped after some epochs; the first,
in which the work is captured, do not count. Evaluation after each epoch is included, that of the training set at the
end is not. Where sharpness begins late or noise ends early, both kinds of epochs are timed. Lines of the table that are not
timed again are kept. `covnoise paper headline` takes its seconds from this table. Nothing else may use the device.
"""
import argparse
import csv
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import tomllib

COLUMNS = ["row", "regime", "seconds", "epochs", "epochs_timed", "timed_with"]
SKIPPED, TIMED = 1, 3  # epochs; a small network's pass so fast that more are timed
LEAST_SECONDS = 1.0    # timed at least


def keys_of(table, prefix=""):
    for key, value in table.items():
        if isinstance(value, dict):
            yield from keys_of(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def settings_of(recipes, row, regime):
    """The regime of the program and its further settings: those of the variant, if it is one."""
    for path in sorted((recipes / "variants").glob("*.toml")):
        variants = tomllib.loads(path.read_text())
        if row in variants.pop("rows", []) and regime in variants:
            settings = dict(keys_of(variants[regime]))
            return settings.pop("regime"), settings
    return regime, {}


def phases_of(config, regime, settings):
    """Shares of the training with the settings of their epochs."""
    train, noise = config["train"], config["noise"]
    if train["batch_schedule"]:
        raise SystemExit(f"alone: {regime} changes its batch, whose epochs take unequally long")
    if train["sharpness"] > 0 and train["sharpness_after"] > 0:
        late = train["sharpness_after"]
        plain = {key: value for key, value in settings.items() if not key.startswith("train.sharpness")}
        return [(late, regime, plain), (1 - late, regime, {**settings, "train.sharpness_after": 0.0})]
    if noise["structure"] != "none" and noise["stop_after"] < 1:
        rest = {key: value for key, value in settings.items() if not key.startswith("noise.")}
        return [(noise["stop_after"], regime, settings), (1 - noise["stop_after"], "lb", rest)]
    return [(1.0, regime, settings)]


def command(args, row, regime, settings, out):
    words = [args.program, "train", str(args.recipes / f"{row}.toml"), "--regime", regime, "--out", str(out),
             "--device", args.device, "--precision", args.precision]
    for key, value in settings.items():
        words += ["--set", f"{key}={json.dumps(value)}"]
    return words


def config_of(args, row, regime, settings):
    with tempfile.TemporaryDirectory() as folder:
        words = command(args, row, regime, settings, pathlib.Path(folder) / "run") + ["--dry-run"]
        run = subprocess.run(words, capture_output=True, text=True)
        if run.returncode != 0:
            raise SystemExit(f"alone: {row}, {regime}: {run.stderr.strip()}")
        return tomllib.loads(run.stdout)


def epoch_seconds(out):
    """Seconds since the begin of the training at the end of each epoch so far."""
    path = out / "metrics.jsonl"
    if not path.exists():
        return []
    lines = path.read_text().splitlines(keepends=True)
    records = [json.loads(line) for line in lines if line.endswith("\n") and '"kind":"epoch"' in line]
    return [record["seconds"] for record in records]


def seconds_per_epoch(args, row, regime, settings):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run"
        with open(pathlib.Path(folder) / "log", "w+") as log:
            run = subprocess.Popen(command(args, row, regime, settings, out), stdout=log, stderr=log)
            while run.poll() is None:
                ends = epoch_seconds(out)
                count = len(ends) - SKIPPED
                if count >= TIMED and ends[-1] - ends[SKIPPED - 1] >= LEAST_SECONDS:
                    break
                time.sleep(0.02)
            run.send_signal(signal.SIGINT)
            run.wait()
            ends = epoch_seconds(out)
            count = len(ends) - SKIPPED
            if count < 1:
                log.seek(0)
                raise SystemExit(f"alone: {row}, {regime} had no epochs to time:\n{log.read()}")
    return (ends[-1] - ends[SKIPPED - 1]) / count, count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("wanted", nargs="+", metavar="ROWS:REGIMES")
    parser.add_argument("--recipes", type=pathlib.Path, default=pathlib.Path("recipes/healthy"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--program", default=os.environ.get("COVNOISE", "build/covnoise"))
    args = parser.parse_args()
    table = {}
    if args.table.exists():
        with open(args.table, newline="") as file:
            table = {(line["row"], line["regime"]): line for line in csv.DictReader(file)}
    for wanted in args.wanted:
        rows, regimes = (part.split(",") for part in wanted.split(":"))
        for name in regimes:
            regime, settings = settings_of(args.recipes, rows[0], name)
            config = config_of(args, rows[0], regime, settings)
            epochs, seconds, timed = config["train"]["epochs"], 0.0, 0
            for share, of_phase, with_settings in phases_of(config, regime, settings):
                each, count = seconds_per_epoch(args, rows[0], of_phase, with_settings)
                seconds += share * epochs * each
                timed += count
            for row in rows:
                table[row, name] = {"row": row, "regime": name, "seconds": f"{seconds:.1f}", "epochs": epochs,
                                    "epochs_timed": timed, "timed_with": rows[0]}
            print(f"{wanted.split(':')[0]}, {name}: {seconds:.1f} s for {epochs} epochs", flush=True)
            with open(args.table, "w", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(table[key] for key in sorted(table))


if __name__ == "__main__":
    main()
