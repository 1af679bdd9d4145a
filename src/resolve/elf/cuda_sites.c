/* See cuda_sites.h. */
#include "resolve/elf/cuda_sites.h"

#include "base/cleanup.h"
#include "resolve/elf/elf_symbols.h"
#include "resolve/elf/probe_site.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SYMBOLS_MAX_BYTES (4u << 20)
#define NOT_COUNTED       (-1)

/* By the beginnings of names: later versions of the library add variants. The first row that fits decides. */
static const struct {
    const char *begin;
    int call;
} functions[] = {
    {"cuLaunchHostFunc", NOT_COUNTED}, /* runs a function of the program */
    {"cuLaunch", CUDA_CALL_LAUNCH},
    {"cuGraphLaunch", CUDA_CALL_GRAPH_LAUNCH},
    {"cuMemcpy", CUDA_CALL_COPY},
    {"cuMemAllocHost", NOT_COUNTED}, /* memory of the host */
    {"cuMemAlloc", CUDA_CALL_ALLOCATION},
    {"cuMemCreate", CUDA_CALL_ALLOCATION},
    {"cuCtxSynchronize", CUDA_CALL_SYNCHRONIZE},
    {"cuStreamSynchronize", CUDA_CALL_SYNCHRONIZE},
    {"cuEventSynchronize", CUDA_CALL_SYNCHRONIZE},
};

int cuda_call_of(const char *function)
{
    for (size_t i = 0; i < array_size(functions); i++)
        if (strncmp(function, functions[i].begin, strlen(functions[i].begin)) == 0)
            return functions[i].call;
    return NOT_COUNTED;
}

static bool has_site(const struct cuda_call_sites *c, uint64_t file_offset)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->file_offsets[i] == file_offset)
            return true;
    return false;
}

/* Only at its entry is a function certain to execute an instruction once a call. */
static bool find_site(const struct elf_file *f, uint64_t function, uint64_t *ret_offset)
{
    const uint64_t address = elf_machine(f) == EM_X86_64 ? probe_site_at_entry(f, function) : 0;
    return address && elf_offset_from_vaddr(f, address, ret_offset) == 0 && *ret_offset < elf_size(f);
}

static void add_function(const struct elf_file *f, const char *name, uint64_t address, struct cuda_call_sites *c)
{
    uint64_t offset;
    if (!find_site(f, address, &offset) || (c->count == CUDA_SITES_MAX && !has_site(c, offset)))
        snprintf(c->declined, sizeof(c->declined), "%s", name);
    else if (!has_site(c, offset))
        c->file_offsets[c->count++] = offset;
}

int cuda_sites_find(const struct elf_file *f, struct cuda_sites *ret)
{
    _cleanup_(elf_symbols_free) struct elf_symbols symbols = {0};
    bool has_functions = false;
    int r = elf_symbols_read(f, ".dynsym", SYMBOLS_MAX_BYTES, &symbols);
    if (r < 0)
        return r;
    *ret = (struct cuda_sites){0};
    for (size_t i = 0; i < symbols.count; i++) {
        const Elf64_Sym *s = &symbols.all[i];
        const char *name = ELF64_ST_TYPE(s->st_info) == STT_FUNC ? elf_symbols_name(&symbols, s) : NULL;
        const int call = name && s->st_value ? cuda_call_of(name) : NOT_COUNTED;
        if (call == NOT_COUNTED)
            continue;
        has_functions = true;
        add_function(f, name, s->st_value, &ret->calls[call]);
    }
    for (size_t i = 0; i < CUDA_CALLS; i++)
        if (ret->calls[i].declined[0])
            ret->calls[i].count = 0;
    return elf_error(f) ?: has_functions ? 0 : -ENOENT;
}
