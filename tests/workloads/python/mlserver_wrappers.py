"""Wrappers of sonde.mlserver applied to a class; some do not match. Prints why."""
import warnings

warnings.simplefilter("ignore")  # MLServer is not installed
from sonde import mlserver  # noqa: E402

class Owner:
    def plain(self, a): return "plain", a
    async def awaited(self, a): pass
    def other(self, b): pass
kept = dict(vars(Owner))

def good(probes, put):
    def plain(self, a): return "wrapped", *original(self, a)
    original = put(Owner, plain)

def bad(name):
    def family(probes, put):
        def plain(self, a): pass
        def other(self, a): pass
        async def awaited(self, a): yield
        def missing(self): pass
        put(Owner, plain)
        put(Owner, locals()[name])
    return family

for name in ("other", "awaited", "missing"):
    try:
        mlserver._install_family(bad(name), None)
        print("put on")
    except mlserver._Different as error:
        print(error)
    assert dict(vars(Owner)) == kept
mlserver._install_family(good, None)
print(Owner().plain(5))
