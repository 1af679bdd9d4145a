"""Functions that call each other in a loop, to be run with -X perf."""


def inner(n):
    return sum(i * i % 7 for i in range(n)) if n == 0 else [i * i % 7 for i in range(n)]


def middle():
    return inner(3000)


def outer():
    while True:
        middle()


print("ready", flush=True)
outer()
