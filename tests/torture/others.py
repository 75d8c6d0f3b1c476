"""Full disks, two starts at once, strangers on the ports of the ranks."""
import os, pathlib, socket, subprocess, time

from kills import children, finish_undisturbed, kill_group, wait_for
from training import Wrong, finish


def mount(folder, size, how=()):
    return subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join([*how, f"size={size}"]), "tmpfs", str(folder)],
                          stderr=subprocess.DEVNULL).returncode == 0


def full_disk(training, out, random, counts):
    """A file system that is too small, and then is not."""
    out.mkdir()
    total = sum(path.stat().st_size for path in training.calm.rglob("*") if path.is_file())
    if not mount(out, int(total * random.uniform(0.05, 1.1))):
        return counts.add("full disks skipped, because nothing may be mounted")
    try:
        result = training.run(out / "run")
        counts.add("full disks")
        if result.code != 0 and not (result.refused() and "No space left" in result.err):
            raise Wrong(f"on a full disk: {result}")
        counts.add("refused", result.code != 0)
        mount(out, 10 * total + (1 << 20), ["remount"])
        finish_undisturbed(training, out / "run")
        counts.add("same bytes")
    finally:
        subprocess.run(["umount", str(out)])


def two_starts(training, out, random, counts):
    first = training.start(out)
    time.sleep(random.uniform(0, training.seconds))
    results = [finish(process) for process in (training.start(out), first)]
    counts.add("double starts")
    if all(result.code != 0 for result in results):
        raise Wrong("of two starts, both failed: " + "; ".join(map(str, results)))
    for result in results:
        if result.code != 0 and not (result.refused() and "in use by another" in result.err):
            raise Wrong(f"two starts at once: {result}")
        counts.add("refused", result.code != 0)
    training.expect_same(out)
    counts.add("same bytes")


def listening_ports(process):
    """TCP ports that the process has open for connections."""
    inodes = set()
    try:
        for entry in pathlib.Path(f"/proc/{process}/fd").iterdir():
            target = os.readlink(entry)
            inodes |= {target[8:-1]} if target.startswith("socket:[") else set()
        lines = [line.split() for table in ("tcp", "tcp6")
                 for line in pathlib.Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]]
    except OSError:  # it has ended
        return set()
    return {int(line[1].rsplit(":", 1)[1], 16) for line in lines if line[3] == "0A" and line[9] in inodes}


def connect(port, random, open_sockets):
    try:
        stranger = socket.create_connection(("localhost", port), timeout=1)
        stranger.setblocking(False)
        message = random.choice([b"", b"\0", b"GET / HTTP/1.1\r\n\r\n", random.randbytes(8), random.randbytes(4096)])
        if message:
            stranger.send(message)
    except OSError:
        return 0
    if random.random() < 0.5:
        stranger.close()
    else:
        open_sockets.append(stranger)  # silent until the training ends
    return 1


def strangers(training, out, random, counts):
    """They may make a training fail, but not hang or train something else."""
    process, sockets, met = training.start(out), [], 0
    wait_for(process, lambda: random.random() < 0.005 or training.first_config(out))
    deadline = time.monotonic() + training.seconds
    while process.poll() is None and time.monotonic() < deadline:
        for child in [process.pid, *children(process)]:
            for port in listening_ports(child):
                met += connect(port, random, sockets)
        time.sleep(random.uniform(0.01, 0.1))
    result = finish(process)
    for stranger in sockets:
        stranger.close()
    counts.add("strangers", met)
    if result.code != 0 and not result.refused(most_lines=4):
        raise Wrong(f"with {met} strangers: {result}")
    counts.add("refused", result.code != 0)
    finish_undisturbed(training, out)
    kill_group(process)
    counts.add("same bytes")
