/* Shared by user space and probes/kernel_names.bpf.c. */
#pragma once

#define KERNEL_NAMES_TEXT_BYTES 704 /* KSYM_SYMBOL_LEN of kernels so far: name, offset, size, module, its build ID */
