"""Loads libsonde, uses a provider and unloads both, a hundred times: `plugin.py LIBRARY`. Nothing of it stays mapped."""
import _ctypes
import ctypes
import sys

for _ in range(100):
    sonde = ctypes.CDLL(sys.argv[1])
    provider, probe = ctypes.c_void_p(), ctypes.c_void_p()
    assert sonde.sonde_provider_new(b"plugin", ctypes.byref(provider)) == 0
    assert sonde.sonde_probe_add(provider, b"probe", b"i32 n", ctypes.byref(probe)) == 0
    assert sonde.sonde_provider_load(provider) == 0 and "memfd:plugin" in open("/proc/self/maps").read()
    sonde.sonde_provider_free(provider)
    _ctypes.dlclose(sonde._handle)
maps = open("/proc/self/maps").read()
assert "memfd:plugin" not in maps and "libsonde" not in maps, maps
