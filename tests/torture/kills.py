"""Kills at random moments; the same command is then repeated until it ends."""
import os, signal, time

from training import Wrong, finish


def wait_for(process, condition):
    while process.poll() is None and not condition():
        time.sleep(0.001)


def children(process):
    try:
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
            return [int(number) for number in file.read().split()]
    except OSError:
        return []


def kill(number):
    try:
        os.kill(number, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False


def kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def finish_undisturbed(training, out):
    """What a kill leaves behind is resumed without complaint, unless a process of the killed command still trains."""
    deadline = time.monotonic() + 120
    while True:
        result = training.run(out)
        if result.code == 0:
            return training.expect_same(out)
        busy = "in use by another" in result.out + result.err
        if not busy or time.monotonic() > deadline:
            raise Wrong(f"after a kill: {result}")
        time.sleep(0.2)


def kill_once(training, out, random, counts):
    process = training.start(out)
    if random.random() < 0.8:  # otherwise possibly while the program is being loaded
        wait_for(process, lambda: training.first_config(out))
    time.sleep(random.uniform(0, training.seconds))
    if training.kind == "train" or random.random() < 0.2:
        counts.add("kills", process.poll() is None)
        kill_group(process)
    else:
        kill_a_part(training, process, random, counts)
    finish(process)
    return process


def kill_a_part(training, process, random, counts):
    """One of the children, or the parent alone."""
    victims = children(process)
    if victims and random.random() < 0.75:
        killed = kill(random.choice(victims))
        counts.add("kills", killed)
        if training.kind == "launch":
            counts.add("ranks killed", killed)
    else:
        counts.add("kills", kill(process.pid))


def kills(training, out, random, counts):
    processes = [kill_once(training, out, random, counts) for _ in range(random.randint(1, 3))]
    try:
        finish_undisturbed(training, out)
    finally:
        for process in processes:
            kill_group(process)
    counts.add("same bytes")
