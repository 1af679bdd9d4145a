/* What user space and probes/kernel_names.bpf.c say to each other. */
#pragma once

#define KERNEL_NAMES_TEXT_BYTES                                                                                        \
    704 /* KSYM_SYMBOL_LEN of the kernels so far: name, offset, size, module, its build id */
