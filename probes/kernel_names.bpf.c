/* Looks up the name of a kernel address. For the few sampled addresses this is much faster than having the kernel
 * print all of /proc/kallsyms. Not attached: src/sources/kernel_names/kernel_names.c runs it (5.16 and later). */
#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#include "probes/kernel_names.h"

char LICENSE[] SEC("license") = "GPL";

/* The kernel's own text, and the end of its image. */
__u64 text_start, text_end, image_end;

/* Input; output: "vfs_read+0x1b/0x360", "btrfs_read+0x1b/0x360 [btrfs]"; "0xffffffff81000000": unknown. */
__u64 address;
char text[KERNEL_NAMES_TEXT_BYTES];

#define MARK(name, ret) bpf_kallsyms_lookup_name(name, sizeof(name), 0, ret)

SEC("syscall")
int find_text(void *context)
{
    static const char start[] = "_stext", end[] = "_etext", image[] = "_end", init[] = "_einittext";
    __u64 found[3] = {};
    int r = MARK(start, &found[0]) ?: MARK(end, &found[1]);

    if (r == 0 && MARK(image, &found[2]) != 0) /* only on kernels whose kallsyms includes data */
        r = MARK(init, &found[2]);
    text_start = found[0];
    text_end = found[1];
    image_end = found[2];
    return r;
}

SEC("syscall")
int name_address(void *context)
{
    __u64 value = address;

    return BPF_SNPRINTF(text, sizeof(text), "%pS", value);
}
