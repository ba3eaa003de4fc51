"""Compares trainings with nccl4j and with NCCL: compare_training.py FOLDER TURNS RANKS

The folder has the outputs of torch_training.py, ours1 and theirs1 to those of the last turn. Prints a
line for each mode of parallelism; the exit status is 1 if losses differ or do not fall.
"""
import json
import statistics
import sys

folder, turns, ranks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def read(library):
    """By mode: losses by rank of each turn, and times of a step of each turn."""
    found = {}
    for turn in range(1, turns + 1):
        with open(f"{folder}/{library}{turn}") as output:
            lines = [json.loads(line) for line in output if line.startswith('{"mode"')]
        for mode in {line["mode"]: None for line in lines}:
            mine = [line for line in lines if line["mode"] == mode]
            losses, times = found.setdefault(mode, ([], []))
            losses.append({line["rank"]: line["losses"] for line in mine})
            times += [max(line["step_us"] for line in mine)] if mine[0]["step_us"] else []
    return found


def check(ours, theirs):
    """What is wrong with losses, or None."""
    longest = max(ours + theirs, key=lambda turn: len(turn[0]))
    if sorted(longest) != list(range(ranks)):
        return f"only the ranks {sorted(longest)} gave losses"
    told = max(longest, key=lambda rank: longest[rank][0])  # a pipeline's first ranks have none
    if not longest[told][-1] < longest[told][0]:
        return f"losses do not fall: {longest[told][0]} to {longest[told][-1]}"
    for turn in ours + theirs:
        for rank, losses in turn.items():
            steps = len(losses)
            worst = max(abs(a - b) / max(abs(b), 1e-12) for a, b in zip(losses, theirs[0][rank]))
            # Two addends have one order; more may be added in another, and training magnifies that.
            if ranks <= 2 and losses != theirs[0][rank][:steps] or not worst < 0.05:
                first = next(i for i in range(steps) if losses[i] != theirs[0][rank][i])
                return f"losses of rank {rank} differ from NCCL's by {worst:.1e}, first in step {first}"
    return None


status = 0
ours, theirs = read("ours"), read("theirs")
for mode in theirs:
    (losses, times), (their_losses, their_times) = ours[mode], theirs[mode]
    wrong = check(losses, their_losses)
    if wrong:
        status = 1
        print(f"FAIL torch-training-{mode}: {wrong}")
        continue
    same = "equal to" if losses[0] == their_losses[0] else "near"
    t, u = statistics.median(times), statistics.median(their_times)
    # The clock of a machine may change from turn to turn, so turns are compared one by one.
    ratio = statistics.median(a / b for a, b in zip(times, their_times))
    spread = " ".join(f"{a / 1e3:.2f}/{b / 1e3:.2f}" for a, b in zip(times, their_times))
    print(
        f"PASS torch-training-{mode}: {len(losses[0][0])} steps, losses {same} NCCL's; a step takes "
        f"{t / 1e3:.2f} ms, with NCCL {u / 1e3:.2f} ms ({ratio:.3f}, the median of the turns; {spread})"
    )
sys.exit(status)
