/* x86-64 and arm64: instruction, operands and unwind information. On other CPUs probes are not supported, and stub
 * functions keep the callers portable. */
#include "site.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#if defined(__x86_64__) && defined(__LP64__)

/* Every kernel emulates this one-byte nop; a hit costs a breakpoint exception. */
static const struct probe_site NOP = {{0x90, 0xc3}, 2};
/* A kernel with optimised uprobes replaces this five-byte nop by a call to a trampoline, which costs a system call
 * and no exception. Other kernels single-step it. */
static const struct probe_site NOP5 = {{0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3}, 6};

/* The optimisation introduced a system call, uprobe, which the trampoline makes and which fails with ENXIO for any
 * other caller: testing for it needs no privileges. Older kernels return ENOSYS, except that a seccomp filter runs
 * first and may kill the process; newer kernels bypass the filter for it. */
static int kernel_optimises_nop5(void)
{
    enum { SYS_UPROBE = 336 };
    struct utsname name;
    int major = 0, minor = 0;
    if (prctl(PR_GET_SECCOMP) != 0 &&
        (uname(&name) < 0 || sscanf(name.release, "%d.%d", &major, &minor) != 2 || major * 1000 + minor < 6018))
        return 0;
    return syscall(SYS_UPROBE) < 0 && errno == ENXIO;
}

uint16_t probe_site_machine(void)
{
    return EM_X86_64;
}

const struct probe_site *probe_site_choose(void)
{
    return kernel_optimises_nop5() ? &NOP5 : &NOP;
}

void probe_site_operand(unsigned index, char out[static PROBE_OPERAND_MAX])
{
    static const char *const REGISTERS[] = {"rdi", "rsi", "rdx", "rcx", "r8", "r9"};
    if (index < 6)
        snprintf(out, PROBE_OPERAND_MAX, "%%%s", REGISTERS[index]);
    else
        snprintf(out, PROBE_OPERAND_MAX, "%u(%%rsp)", 8 * (index - 5)); /* above the return address */
}

void probe_site_fill_with_returns(void *code, size_t size)
{
    memset(code, 0xc3, size);
}

enum { CODE_ALIGN = 1, RETURN_COLUMN = 16, STACK_COLUMN = 7, CFA_OFFSET = 8 };
/* DW_CFA_offset: the return address is at CFA - 8. */
#define RETURN_RULE 0x80 | RETURN_COLUMN, 1

#elif defined(__aarch64__) && defined(__AARCH64EL__)

/* All kernels simulate a return; they simulate nop only since 6.13. So the stub is a bare return, and attaching to it
 * costs no second instruction. */
static const struct probe_site RET = {{0xc0, 0x03, 0x5f, 0xd6}, 4};

uint16_t probe_site_machine(void)
{
    return EM_AARCH64;
}

const struct probe_site *probe_site_choose(void)
{
    return &RET;
}

void probe_site_operand(unsigned index, char out[static PROBE_OPERAND_MAX])
{
    if (index < 8)
        snprintf(out, PROBE_OPERAND_MAX, "x%u", index);
    else
        snprintf(out, PROBE_OPERAND_MAX, "[sp, %u]", 8 * (index - 8));
}

void probe_site_fill_with_returns(void *code, size_t size)
{
    for (size_t i = 0; i + RET.size <= size; i += RET.size)
        memcpy((char *)code + i, RET.code, RET.size);
    __builtin___clear_cache((char *)code, (char *)code + size);
}

enum { CODE_ALIGN = 4, RETURN_COLUMN = 30, STACK_COLUMN = 31, CFA_OFFSET = 0 };
#define RETURN_RULE 0 /* none: the return address is still in its register */

#else

uint16_t probe_site_machine(void)
{
    return 0;
}

const struct probe_site *probe_site_choose(void)
{
    static const struct probe_site NONE = {{0}, 0};
    return &NONE;
}

void probe_site_operand(unsigned index, char out[static PROBE_OPERAND_MAX])
{
    snprintf(out, PROBE_OPERAND_MAX, "?%u", index);
}

void probe_site_fill_with_returns(void *code, size_t size)
{
    memset(code, 0, size);
}

enum { CODE_ALIGN = 1, RETURN_COLUMN = 0, STACK_COLUMN = 0, CFA_OFFSET = 0 };
#define RETURN_RULE 0

#endif

size_t probe_site_eh_frame(int32_t text_distance, uint32_t text_size, uint8_t out[static PROBE_EH_FRAME_MAX])
{
    enum { CIE_SIZE = 24, FDE_SIZE = 20, PC_RELATIVE_4_BYTES = 0x1b, DEF_CFA = 0x0c };
    /* clang-format off */
    static const uint8_t CIE[CIE_SIZE] = {
        CIE_SIZE - 4, 0, 0, 0,                     /* length */
        0, 0, 0, 0,                                /* CIE id */
        1,                                         /* version */
        'z', 'R', 0,                               /* augmentation: pointer encoding */
        CODE_ALIGN, 0x78,                          /* code alignment; data alignment, -8 */
        RETURN_COLUMN, 1, PC_RELATIVE_4_BYTES,
        DEF_CFA, STACK_COLUMN, CFA_OFFSET,
        RETURN_RULE,                               /* the rest is DW_CFA_nop */
    };
    /* clang-format on */
    uint8_t fde[FDE_SIZE + 4] = {FDE_SIZE - 4};
    uint32_t back = CIE_SIZE + 4;                /* from this field to the CIE */
    int32_t pc = text_distance - (CIE_SIZE + 8); /* from this field to the text */
    memcpy(fde + 4, &back, 4);
    memcpy(fde + 8, &pc, 4);
    memcpy(fde + 12, &text_size, 4);
    memcpy(out, CIE, CIE_SIZE);
    memcpy(out + CIE_SIZE, fde, sizeof(fde)); /* the final four zero bytes terminate the section */
    return CIE_SIZE + sizeof(fde);
}
