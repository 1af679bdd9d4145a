/* Requests of block devices. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>

#include "probes/common/direct.bpf.h"

static __always_inline const void *request_disk(const void *request)
{
    if (bpf_core_field_exists(((struct request___old *)0)->rq_disk)) /* before 5.17 */
        return BPF_CORE_READ((const struct request___old *)request, rq_disk);
    const void *queue = DIRECT_READ(struct request, request, q);
    return DIRECT_READ(struct request_queue, queue, disk);
}

/* As the kernel numbers devices. */
static __always_inline __u32 disk_number(const void *disk)
{
    return (__u32)DIRECT_READ(struct gendisk, disk, major) << 20 |
           (__u32)DIRECT_READ(struct gendisk, disk, first_minor);
}
