"""One flipped bit in a file of a run, and then a command that reads the file."""
import shutil

from training import Wrong, finish, records, start

NEWEST, OLDER = "checkpoints/step-00000008", "checkpoints/step-00000004"
RUN_FILES = ["config.toml", "metrics.jsonl"]
DERIVED = ["metrics.csv", "events.out.tfevents.0000000000.covnoise"]
PARTS = ["model.safetensors", "optimizer.safetensors", "state.json", "SHA256SUMS"]
SNAPSHOTS = [f"snapshots/step-0000000{step}.safetensors" for step in (0, 4, 8)]


def flip(path, random):
    data = bytearray(path.read_bytes())
    # Half of the flips hit the first kilobyte, where the large files have their headers.
    byte = random.randrange(min(len(data), 1024) if random.random() < 0.5 else len(data))
    data[byte] ^= 1 << random.randrange(8)
    path.write_bytes(data)
    return byte


def killed_before_the_last_checkpoint(run):
    shutil.rmtree(run / NEWEST)
    (run / SNAPSHOTS[-1]).unlink()


def judge(result, good, counts, what):
    """`good` says whether an answer with exit code 0 is the undisturbed one."""
    if result.refused():
        counts.add("refused")
    elif result.code == 0 and good():
        counts.add("same bytes")
    else:
        raise Wrong(f"{what}: {result}, output {result.out.strip()!r}")


def resume(training, out, random, counts):
    shutil.copytree(training.calm, out)
    files = RUN_FILES + [f"{NEWEST}/{part}" for part in PARTS]
    if random.random() < 0.5:
        killed_before_the_last_checkpoint(out)
        files = RUN_FILES + DERIVED + ["software.json"] + [f"{OLDER}/{part}" for part in PARTS]
    name = random.choice(files)
    byte = flip(out / name, random)
    counts.add("flips")
    result = finish(start([training.program, "train", "--resume", str(out)]))
    what = f"resumed with byte {byte} of {name} flipped"

    def same():
        try:
            training.expect_same(out)
            return True
        except Wrong as wrong:
            raise Wrong(f"{what}: {wrong}")
    judge(result, same, counts, what)


def answer(training, out, command):
    """The output of eval or analyze for a run, without the folder's name."""
    words = [str(out) if word == "RUN" else word for word in command]
    result = finish(start([training.program, *words]))
    result.out = result.out.replace(str(out), "")
    return result


def ask(training, out, random, counts):
    """eval and analyze answer as undisturbed, or refuse."""
    shutil.copytree(training.calm, out)
    kind = random.choice(["eval", "older", "analyze"])
    command = ["eval", "RUN", "--best"] if random.random() < 0.3 else ["eval", "RUN"]
    files = ["config.toml"] + [f"{NEWEST}/{part}" for part in PARTS]
    if kind == "older":
        shutil.rmtree(out / NEWEST)
        files = [f"{OLDER}/{part}" for part in PARTS]
    if kind == "analyze":
        step = random.randrange(3)
        command, files = ["analyze", "fisher", "RUN", "--examples", "16", "--step", str(4 * step)], [SNAPSHOTS[step]]
    expected = answer(training, out, command)
    name = random.choice(files)
    byte = flip(out / name, random)
    counts.add("flips")
    result = answer(training, out, command)
    judge(result, lambda: result.out == expected.out, counts, f"{command} with byte {byte} of {name} flipped")


def list_many(training, out, random, counts, number=50):
    """`runs` names each damaged run in a line of its own, instead of listing it."""
    names = [f"run{i:03}" for i in range(number)]
    expected = records((training.calm / "metrics.jsonl").read_text())
    harmless = set()
    for name in names + ["good"]:
        (out / name).mkdir(parents=True)
        for file in RUN_FILES + ["metrics.csv"]:
            shutil.copy(training.calm / file, out / name)
    for name in names:
        metrics = out / name / "metrics.jsonl"
        flip(random.choice([out / name / "config.toml", metrics]), random)
        try:
            if (out / name / "config.toml").read_bytes() == (training.calm / "config.toml").read_bytes():
                harmless |= {name} if records(metrics.read_text()) == expected else set()
        except ValueError:
            pass
    counts.add("flips", number)
    result = finish(start([training.program, "runs", str(out)]))
    listed = {line.split()[0].split("/")[-1] for line in result.out.splitlines()[1:]}
    if "good" not in listed:
        raise Wrong(f"runs leaves out an intact run: {result}")
    listed.remove("good")
    refused = {name for name in names if any(name in line for line in result.err.splitlines())}
    counts.add("refused", len(refused))
    counts.add("same bytes", len(listed))
    if listed & refused or listed | refused != set(names) or not listed <= harmless:
        raise Wrong(f"runs lists {sorted(listed - harmless)} and leaves out {sorted(set(names) - listed - refused)}: {result}")
