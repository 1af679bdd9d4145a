"""Folded stacks of a replay."""


def without_kernel(lines):
    """{stack: count} of the user part: kernel names belong to the present system, and BPF programs come and go. Includes the losses."""
    stacks = {}
    for line in lines:
        stack, count = line.rsplit(" ", 1)
        frames = stack.split(";")
        end = next((i for i, frame in enumerate(frames) if frame.endswith("_[k]") or frame.startswith("[kernel")), len(frames))
        stacks[";".join(frames[:end])] = stacks.get(";".join(frames[:end]), 0) + int(count)
    stacks.pop("# unnamed", None)
    return stacks
