"""Tiny trainings, started as processes, and the comparison of what they leave behind."""
import csv, hashlib, io, json, os, pathlib, subprocess, threading, time

LIMIT = 240  # seconds after which a process counts as hung
SETTINGS = {
    "model": "lenet", "data": "glyphs", "regime": "lb-diag", "run.threads": "1",
    "train.epochs": "2", "train.batch": "64", "train.ghost_batch": "16", "train.log_every": "1",
    "train.snapshot_every": "4", "data.train_limit": "256", "data.test_limit": "64",
    "noise.small_batch": "16", "noise.refresh": "3", "noise.stop_after": "0.8",
}
CLOCKS = ("seconds", "images_per_s", "crc")  # differ between two runs of the same training


class Wrong(Exception):
    """What the campaign is looking for."""


class Counts:
    def __init__(self):
        self.values, self.lock = {}, threading.Lock()

    def add(self, name, number=1):
        with self.lock:
            self.values[name] = self.values.get(name, 0) + number

    def get(self, name):
        return self.values.get(name, 0)


class Result:
    def __init__(self, process, out, err):
        self.code, self.out, self.err = process.returncode, out, err

    def refused(self, most_lines=1):
        """A non-zero exit code, not by a signal, and a line that says why (one for each process of several)."""
        lines = self.err.strip().splitlines()
        return self.code > 0 and 1 <= len(lines) <= most_lines and all(line.startswith("covnoise: ") for line in lines)

    def __str__(self):
        return f"exit code {self.code}, error output {self.err.strip()!r}"


class Training:
    """One command: `train` in one process, `launch` with two ranks, or a `sweep` over two seeds."""

    def __init__(self, kind, program, folder):
        self.kind, self.program = kind, program
        self.calm = folder / f"calm-{kind}"
        start = time.monotonic()
        result = self.run(self.calm)
        if result.code != 0:
            raise SystemExit(f"torture: the undisturbed {kind} failed: {result}")
        self.seconds = time.monotonic() - start
        self.expected = [contents(run) for run in self.runs(self.calm)]

    def command(self, out):
        settings = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
        if self.kind == "sweep":
            return [self.program, "sweep", *settings, "--vary", "seed=0,1", "--jobs", "2", "--out", str(out)]
        ranks = ["launch", "--nproc", "2"] if self.kind == "launch" else []
        return [self.program, *ranks, "train", *settings, "--timeout", "60", "--out", str(out)]

    def runs(self, out):
        return sorted((out / "runs").iterdir()) if self.kind == "sweep" else [out]

    def first_config(self, out):
        """Whether the training has begun."""
        return any(out.glob("runs/*/config.toml" if self.kind == "sweep" else "config.toml"))

    def start(self, out):
        return start(self.command(out))

    def run(self, out):
        return finish(self.start(out))

    def expect_same(self, out):
        found = [contents(run) for run in self.runs(out)]
        if found == self.expected:
            return
        different = {name for a, b in zip(found, self.expected) for name in a.keys() | b.keys() if a.get(name) != b.get(name)}
        raise Wrong(f"other bytes than undisturbed in {sorted(different) or 'the number of runs'}")


def start(command):
    """In a process group of its own, so that all of it can be killed."""
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                            start_new_session=True, env={**os.environ, "OMP_WAIT_POLICY": "passive"})


def finish(process):
    try:
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        raise Wrong(f"hung for {LIMIT} s: {' '.join(process.args)}")
    return Result(process, out, err)


def records(text):
    """The lines of a metrics.jsonl without what depends on the clock; a torn last line is left out."""
    lines = [json.loads(line) for line in text.split("\n")[:-1]]
    return [json.dumps({key: value for key, value in line.items() if key not in CLOCKS}) for line in lines]


def rows(text):
    return [[value for key, value in row.items() if key not in CLOCKS] for row in csv.DictReader(io.StringIO(text))]


def contents(run):
    """Every file of a run by its name, as far as two runs of the same training agree."""
    result = {}
    for path in sorted(run.rglob("*")):
        name = str(path.relative_to(run))
        if path.is_dir() or name == ".lock" or path.name.startswith("events."):
            continue
        if name == "metrics.jsonl":
            result[name] = records(path.read_text())
        elif name == "metrics.csv":
            result[name] = rows(path.read_text())
        else:
            result[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return result
