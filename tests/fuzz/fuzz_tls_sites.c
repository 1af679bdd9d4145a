/* Any bytes as x86-64 code, and as an ELF file with the functions of OpenSSL, BoringSSL and libcuda: instructions lie
 * within the bytes, and sites within the file. */
#include "resolve/elf/cuda_sites.h"
#include "resolve/elf/tls_sites.h"
#include "resolve/elf/x86_code.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_cuda_sites(const struct elf_file *f)
{
    struct cuda_sites sites;
    if (cuda_sites_find(f, &sites) < 0)
        return;
    for (size_t call = 0; call < CUDA_CALLS; call++)
        for (size_t n = 0; n < sites.calls[call].count; n++)
            if (sites.calls[call].file_offsets[n] >= elf_size(f))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct x86_instruction i;
    for (size_t at = 0; at < size && x86_decode(data + at, size - at, at, &i); at += i.bytes)
        if (i.bytes == 0 || i.bytes > 15 || i.bytes > size - at)
            abort();
    void *copy = malloc(size + 1);
    struct elf_file *f = NULL;
    struct tls_sites sites;
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    if (elf_open_memory(copy, size, &f) < 0) {
        free(copy);
        return 0;
    }
    if (tls_sites_find(f, &sites) == 0)
        for (size_t n = 0; n < sites.count; n++)
            if (sites.all[n].file_offset >= elf_size(f))
                abort();
    check_cuda_sites(f);
    elf_file_free(f);
    return 0;
}
