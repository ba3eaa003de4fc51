"""Runs PyTorch's own tests of torch.distributed (torch.testing._internal.distributed) on NCCL's functions.

    torch_c10d.py run RANKS FOLDER [PREFIX]     all tests whose names begin so; FOLDER/outcomes has a line for each
    torch_c10d.py compare OURS THEIRS           fails if a test that passes in THEIRS does not pass in OURS

PyTorch starts new processes for each test. Here the ranks stay and run one test after another; after a test
that fails on some ranks alone, or ends a process, they are started anew, so that each test begins with ranks
that agree. Several groups of ranks (C10D_GROUPS, 4) share the GPUs and the tests.
"""

import concurrent.futures
import datetime
import os
import socket
import subprocess
import sys
import time

SECONDS_EACH = 45  # for one test; a test that takes longer fails
SECONDS_ALL = int(os.environ.get("C10D_SECONDS", "1200"))
GROUPS = int(os.environ.get("C10D_GROUPS", "4"))

# Tests that end the processes or the group that all tests share, or that wait for its deadline.
ENDS_ALL = (
    "test_barrier_timeout_",
    "test_ddp_has_finalized",
    "test_ddp_model_diff_across_ranks",
    "test_destroy_",
    "test_dump_DDP_relevant",
    "test_monitored_barrier_",
)


def suite():
    """The class with PyTorch's tests, and what it takes for a skipped test."""
    try:
        import expecttest  # noqa: F401
    except ImportError:  # only a base class of PyTorch's test cases is used of it
        import types
        import unittest

        module = types.ModuleType("expecttest")
        module.TestCase = type("TestCase", (unittest.TestCase,), {})
        sys.modules["expecttest"] = module
    from torch.testing._internal.common_distributed import TEST_SKIPS
    from torch.testing._internal.common_utils import TestCase
    from torch.testing._internal.distributed.distributed_test import DistributedTest

    class Suite(DistributedTest._DistTestBase, TestCase):
        rank = property(lambda self: int(os.environ["RANK"]))
        world_size = property(lambda self: int(os.environ["WORLD_SIZE"]))

    return Suite, {skip.exit_code: skip.message for skip in TEST_SKIPS.values()}


def names(prefix):
    tests, _ = suite()
    return sorted(n for n in dir(tests) if n.startswith(prefix) and n.startswith("test_") and not n.startswith(ENDS_ALL))


def outcome(test, skips):
    """How a test ends on this rank: a word, and a reason on one line."""
    import unittest

    try:
        test()
        return "pass", ""
    except unittest.SkipTest as skipped:
        return "skip", str(skipped)
    except SystemExit as ended:
        return ("skip", skips[ended.code]) if ended.code in skips else ("fail", f"exit {ended.code}")
    except BaseException as error:
        if "No backend type associated with device type cpu" in str(error):
            return "skip", "needs a backend for CPU tensors"
        return "fail", f"{type(error).__name__}: {error}"


def rank_main(folder, tests):
    import torch
    import torch.distributed as dist

    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    kind, skips = suite()
    store = dist.FileStore(f"{folder}/store", ranks)
    dist.init_process_group(
        "nccl",
        init_method=f"file://{folder}/group",
        world_size=ranks,
        rank=rank,
        timeout=datetime.timedelta(seconds=30),
    )
    with open(f"{folder}/outcomes{rank}", "a", buffering=1) as out:
        for name in tests:
            torch.manual_seed(0)
            word, reason = outcome(getattr(kind(name), name), skips)
            try:
                torch.cuda.synchronize()
            except RuntimeError as error:
                word, reason = "dead", str(error)
            out.write("\t".join((name, word.replace("dead", "fail"), " ".join(reason.split())[:300])) + "\n")
            store.set(f"{name}/{rank}", word)
            keys = [f"{name}/{r}" for r in range(ranks)]
            store.wait(keys, datetime.timedelta(seconds=SECONDS_EACH))
            words = {store.get(key) for key in keys}
            if b"dead" in words or (b"fail" in words and len(words) > 1):
                os._exit(2)
    os._exit(0)


def outcomes_of(folder, ranks):
    """The tests that all ranks ended, with the worst rank's outcome."""
    found = {}
    for rank in range(ranks):
        path = f"{folder}/outcomes{rank}"
        if os.path.exists(path):
            with open(path) as lines:
                for line in lines:
                    name, word, reason = line.rstrip("\n").split("\t")
                    found.setdefault(name, []).append((word, reason))
    order = ("skip", "pass", "fail")
    return {
        name: max(words, key=lambda w: order.index(w[0]))
        for name, words in found.items()
        if len(words) == ranks or any(w[0] == "fail" for w in words)
    }


def run_ranks(ranks, folder, tests, deadline):
    """Starts ranks that run the tests until one ends a rank or time is over; the outcomes of those that ended."""
    for part in ("", "/barrier", "/test_dir", "/init_dir"):
        os.makedirs(folder + part, exist_ok=True)
    log = open(f"{folder}/log", "w")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = []
    for rank in range(ranks):
        env = dict(
            os.environ,
            RANK=str(rank),
            WORLD_SIZE=str(ranks),
            BACKEND="nccl",
            TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC="1000",
            TEMP_DIR=folder,
            INIT_METHOD=f"file://{folder}/init_dir/shared_init_file",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
        )
        command = [sys.executable, __file__, "rank", folder] + tests
        running.append(subprocess.Popen(command, env=env, stdout=log, stderr=log))
    ended, since = -1, time.time()
    while any(p.poll() is None for p in running):
        time.sleep(0.2)
        done = len(outcomes_of(folder, ranks))
        if done != ended:
            ended, since = done, time.time()
        some_failed = any(p.poll() not in (None, 0) for p in running)
        if time.time() > deadline or time.time() - since > (5 if some_failed else SECONDS_EACH):
            break
    for p in running:
        p.kill()
        p.wait()
    found = outcomes_of(folder, ranks)
    missing = [t for t in tests if t not in found]
    last = [t for t in tests if t in found][-1:]
    if missing and time.time() < deadline and not (last and found[last[0]][0] == "fail"):
        codes = " ".join(str(p.returncode) for p in running)
        found[missing[0]] = ("fail", f"the ranks did not end it; exit statuses {codes}; {folder}/log")
    return found


def run_group(ranks, folder, tests, deadline):
    """The outcomes of tests that one group of ranks runs; after a test that ends the ranks, new ones go on."""
    all_found, left, turn = {}, tests, 0
    while left and time.time() < deadline:
        all_found.update(run_ranks(ranks, f"{folder}-{turn}", left, deadline))
        left = [t for t in left if t not in all_found]
        turn += 1
    all_found.update({t: ("not run", f"after {SECONDS_ALL} s") for t in left})
    return all_found


def run(ranks, folder, prefix):
    os.makedirs(folder, exist_ok=True)
    listing = subprocess.run(
        [sys.executable, __file__, "names", prefix],
        env=dict(os.environ, BACKEND="nccl", WORLD_SIZE=str(ranks), RANK="0", TEMP_DIR=folder),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    tests = [line[5:] for line in listing.stdout.splitlines() if line.startswith("NAME ")]
    deadline = time.time() + SECONDS_ALL
    with concurrent.futures.ThreadPoolExecutor(GROUPS) as pool:
        groups = [
            pool.submit(run_group, ranks, os.path.abspath(f"{folder}/{group}"), tests[group::GROUPS], deadline)
            for group in range(GROUPS)
        ]
        all_found = {name: found for group in groups for name, found in group.result().items()}
    with open(f"{folder}/outcomes", "w") as out:
        for name in tests:
            out.write("\t".join((name,) + all_found[name]) + "\n")
    words = [all_found[t][0] for t in tests]
    print(", ".join(f"{words.count(w)} {w}" for w in ("pass", "skip", "fail", "not run") if w in words))


def compare(ours, theirs):
    def read(path):
        with open(path) as lines:
            return {fields[0]: fields[1:] for fields in (line.rstrip("\n").split("\t") for line in lines)}

    a, b = read(ours), read(theirs)
    both = [n for n in b if b[n][0] == "pass" and a.get(n, [""])[0] == "pass"]
    ran = [n for n in b if a.get(n, ["absent"])[0] != "not run"]
    worse = [n for n in ran if b[n][0] == "pass" and a.get(n, ["absent"])[0] != "pass"]
    better = [n for n in a if a[n][0] == "pass" and b.get(n, ["absent"])[0] != "pass"]
    for n in worse:
        print(f"passes with NCCL alone: {n}: {' '.join(a.get(n, ['absent']))}")
    print(
        f"{len(both)} of PyTorch's tests pass with both, {len(worse)} with NCCL alone, {len(better)} with nccl4j alone,"
        f" {len([n for n in b if b[n][0] == 'skip'])} do not apply, {len(b) - len(ran)} did not run"
    )
    return 1 if worse or not both else 0


if __name__ == "__main__":
    match sys.argv[1]:
        case "run":
            run(int(sys.argv[2]), sys.argv[3], sys.argv[4] if len(sys.argv) > 4 else "test_")
        case "rank":
            rank_main(sys.argv[2], sys.argv[3:])
        case "names":
            print("\n".join("NAME " + n for n in names(sys.argv[2])))
        case "compare":
            sys.exit(compare(sys.argv[2], sys.argv[3]))
