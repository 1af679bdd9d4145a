"""Runs in an environment that has PyDarshan (test_darshan.py): `read LOG` prints as JSON what PyDarshan finds in a log; `copy LOG COPY` has
libdarshan-util, which PyDarshan brings along, read the log and write it again."""
import glob
import json
import os
import sys

import cffi
import darshan

WRITING = """
void *darshan_log_open(const char *);
void *darshan_log_create(const char *, int, uint64_t);
void darshan_log_close(void *);
int darshan_log_get_job(void *, void *);
int darshan_log_put_job(void *, void *);
int darshan_log_get_exe(void *, char *);
int darshan_log_put_exe(void *, char *);
int darshan_log_get_mounts(void *, void **, int *);
int darshan_log_put_mounts(void *, void *, int);
int darshan_log_get_namehash(void *, void **);
int darshan_log_put_namehash(void *, void *);
int darshan_log_get_mod(void *, int, void *, int);
int darshan_log_put_mod(void *, int, void *, int, int);
"""
MODULES = {1: 4, 15: 1}  # POSIX and HEATMAP, with their versions
ZLIB = 0


def read(path):
    report = darshan.DarshanReport(path, read_all=True)
    records = []
    if "POSIX" in report.records:
        frames = report.records["POSIX"].to_df()
        for counters, times in zip(frames["counters"].to_dict("records"), frames["fcounters"].to_dict("records")):
            values = {key: value for key, value in {**counters, **times}.items() if key.startswith("POSIX_")}
            records.append({"name": report.name_records[int(counters["id"])], "rank": counters["rank"], "id": str(counters["id"]), "values": values})
    heatmaps = {}
    for name, heatmap in report.heatmaps.items():
        for operation in ("read", "write"):
            frame = heatmap.to_df([operation], interval_index=False)
            heatmaps[f"{name} {operation}"] = {int(rank): [int(value) for value in row] for rank, row in zip(frame.index, frame.to_numpy())}
    return {"job": report.metadata["job"], "exe": report.metadata["exe"], "mounts": report.mounts, "modules": report.modules,
            "names": sorted(report.name_records.values()), "records": records, "heatmaps": heatmaps}


def copy(path, to):
    ffi = cffi.FFI()
    ffi.cdef(WRITING)
    library = ffi.dlopen(glob.glob(os.path.join(os.path.dirname(darshan.__file__), "../darshan.libs/libdarshan-util*.so*"))[0])
    log, new = library.darshan_log_open(path.encode()), library.darshan_log_create(to.encode(), ZLIB, 0)
    job, exe, mounts, count, names = ffi.new("char[]", 4096), ffi.new("char[]", 4096), ffi.new("void **"), ffi.new("int *"), ffi.new("void **")
    assert library.darshan_log_get_job(log, job) == 0 and library.darshan_log_put_job(new, job) == 0
    assert library.darshan_log_get_exe(log, exe) == 0 and library.darshan_log_put_exe(new, exe) == 0
    assert library.darshan_log_get_mounts(log, mounts, count) == 0 and library.darshan_log_put_mounts(new, mounts[0], count[0]) == 0
    assert library.darshan_log_get_namehash(log, names) == 0 and library.darshan_log_put_namehash(new, names[0]) == 0
    data = ffi.new("char[]", 1 << 20)
    for module, version in MODULES.items():
        size = library.darshan_log_get_mod(log, module, data, len(data))
        assert 0 < size < len(data)
        assert library.darshan_log_put_mod(new, module, data, size, version) == 0
    library.darshan_log_close(log)
    library.darshan_log_close(new)


if __name__ == "__main__":
    if sys.argv[1] == "read":
        json.dump(read(sys.argv[2]), sys.stdout, default=lambda value: value.item())
    else:
        copy(*sys.argv[2:])
