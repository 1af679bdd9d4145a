/* Block devices: the part of the I/O programs that sees their requests, and its tables. Used by sources/io alone. */
#pragma once

#include "model/attach.h"
#include "sources/io/io.h"

#include <stdbool.h>
#include <stdint.h>

struct btf;
struct io_bpf;

/* Before loading: selects the programs and tables, if they are `wanted` and fit the tracepoints of this kernel.
 * `kernel`: its BTF, or NULL. Returns whether they are selected. */
bool io_block_choose(struct io_bpf *bpf, const struct btf *kernel, bool wanted);

/* After loading. The other programs stay as they are. -errno: no program of block devices is attached. */
int io_block_attach(struct io_bpf *bpf);

/* Fills in how that went: `error` as of io_block_attach or of loading with these programs, -ENOTSUP if they do not fit.
 */
void io_block_report(struct attach_entry *entry, const struct btf *kernel, int error);

/* As the functions of io.h. */
int io_block_read(struct io_bpf *bpf, const struct io_device_reader *reader);
bool io_block_name(struct io_bpf *bpf, uint32_t device, struct io_device_name *ret);

/* Forgets requests that began before `before_ns`. Returns how many. */
uint64_t io_block_sweep(struct io_bpf *bpf, uint64_t before_ns);
