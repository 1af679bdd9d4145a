/* Static USDT probes, known at compile time: one macro per probe, no library, no initialisation.
 *
 *     SONDE_PROBE(mlserver, model_loaded, model->name, model->version);
 *
 * leaves in the program a nop, a note (section .note.stapsdt) with the address of the nop and the location of the
 * arguments, and a semaphore that a tracer increments. PROVIDER and NAME are identifiers, not strings. Up to 12
 * arguments of any integer type, pointers and doubles (as their 64 bits), evaluated only while a tracer is attached.
 * The same probe may be placed at several sites. The nop is a single byte (on arm64 a branch to the next
 * instruction): in the middle of a function nothing longer is safe, because the code that a kernel patches over a
 * longer nop writes below the stack pointer. */
#ifndef SONDE_STATIC_PROBE_H
#define SONDE_STATIC_PROBE_H

#include <stdint.h>

#include <sonde/probe_value.h>

/* Whether a tracer is attached to PROVIDER:NAME, to guard work that only the probe's arguments need. */
#define SONDE_PROBE_ENABLED(provider, name)                                                                            \
    __extension__({                                                                                                    \
        const volatile uint16_t *sonde_semaphore_;                                                                     \
        __asm__(SONDE_SEMAPHORE_(#provider "_" #name "_semaphore") : "=r"(sonde_semaphore_));                          \
        __builtin_expect(__atomic_load_n(sonde_semaphore_, __ATOMIC_RELAXED) != 0, 0) != 0;                            \
    })

#define SONDE_PROBE(provider, name, ...)                                                                               \
    do {                                                                                                               \
        if (SONDE_PROBE_ENABLED(provider, name)) {                                                                     \
            const struct sonde_value sonde_values_[] = {SONDE_VALUES_(0, ##__VA_ARGS__)};                              \
            __asm__ volatile(                                                                                          \
                SONDE_SITE_(#provider, #name, SONDE_JOIN_(SONDE_OPERANDS_, SONDE_COUNT_(0, ##__VA_ARGS__)))            \
                :                                                                                                      \
                : "r"(sonde_values_ + 1) SONDE_EACH_(SONDE_SIZE_OPERAND_, ##__VA_ARGS__)                               \
                : "memory");                                                                                           \
        }                                                                                                              \
    } while (0)

/* Defines a semaphore and loads its address. All sites of a probe in a linked object share one semaphore; the linker
 * keeps any one of the definitions. It is not declared to the compiler, because g++ loses in templates that its name
 * must not be mangled. */
#define SONDE_SEMAPHORE_(symbol)                                                                                       \
    ".ifndef " symbol "\n"                                                                                             \
    ".pushsection .probes, \"aw\", %%progbits\n"                                                                       \
    ".balign 2\n"                                                                                                      \
    ".weak " symbol "\n"                                                                                               \
    ".hidden " symbol "\n"                                                                                             \
    ".type " symbol ", %%object\n"                                                                                     \
    ".size " symbol ", 2\n" symbol ": .zero 2\n"                                                                       \
    ".popsection\n"                                                                                                    \
    ".endif\n" SONDE_ADDRESS_(symbol)

/* The note that all tracers read (type 3 of "stapsdt"): address of the site, of a base that could reveal
 * prelinking, and of the semaphore; then three strings. The section flag "?" puts the note into the section group of
 * the surrounding function. */
#define SONDE_SITE_(provider, name, operands)                                                                          \
    "771: " SONDE_NOP_ "\n"                                                                                            \
    ".pushsection .note.stapsdt, \"?\", %%note\n"                                                                      \
    ".balign 4\n"                                                                                                      \
    ".4byte 8, 773f - 772f, 3\n"                                                                                       \
    ".asciz \"stapsdt\"\n"                                                                                             \
    "772: .8byte 771b, _.stapsdt.base, " provider "_" name "_semaphore\n"                                              \
    ".asciz \"" provider "\", \"" name "\", \"" operands "\"\n"                                                        \
    "773: .balign 4\n"                                                                                                 \
    ".popsection\n"                                                                                                    \
    ".ifndef _.stapsdt.base\n"                                                                                         \
    ".pushsection .stapsdt.base, \"aG\", %%progbits, .stapsdt.base, comdat\n"                                          \
    ".weak _.stapsdt.base\n"                                                                                           \
    ".hidden _.stapsdt.base\n"                                                                                         \
    "_.stapsdt.base: .zero 1\n"                                                                                        \
    ".size _.stapsdt.base, 1\n"                                                                                        \
    ".popsection\n"                                                                                                    \
    ".endif\n"

#if defined(__x86_64__)
#define SONDE_NOP_             "nop"
#define SONDE_ADDRESS_(symbol) "lea " symbol "(%%rip), %0"
#define SONDE_AT_(offset)      offset "(%0)"
#elif defined(__aarch64__)
#define SONDE_NOP_             "b 774f\n774:" /* every kernel simulates a branch; nop only those since 6.13 */
#define SONDE_ADDRESS_(symbol) "adrp %0, " symbol "\n add %0, %0, :lo12:" symbol
#define SONDE_AT_(offset)      "[%0, " offset "]"
#else
#error "sonde/static_probe.h knows x86-64 and arm64 only"
#endif

/* The arguments are in an array of struct sonde_value that operand 0 points to; operands 1 to 12 are their sizes. */
#define SONDE_SIZE_OPERAND_(x) , "n"(SONDE_SIZE_(x))
#define SONDE_OPERANDS_0       ""
#define SONDE_OPERANDS_1       "%c1@" SONDE_AT_("0")
#define SONDE_OPERANDS_2       SONDE_OPERANDS_1 " %c2@" SONDE_AT_("16")
#define SONDE_OPERANDS_3       SONDE_OPERANDS_2 " %c3@" SONDE_AT_("32")
#define SONDE_OPERANDS_4       SONDE_OPERANDS_3 " %c4@" SONDE_AT_("48")
#define SONDE_OPERANDS_5       SONDE_OPERANDS_4 " %c5@" SONDE_AT_("64")
#define SONDE_OPERANDS_6       SONDE_OPERANDS_5 " %c6@" SONDE_AT_("80")
#define SONDE_OPERANDS_7       SONDE_OPERANDS_6 " %c7@" SONDE_AT_("96")
#define SONDE_OPERANDS_8       SONDE_OPERANDS_7 " %c8@" SONDE_AT_("112")
#define SONDE_OPERANDS_9       SONDE_OPERANDS_8 " %c9@" SONDE_AT_("128")
#define SONDE_OPERANDS_10      SONDE_OPERANDS_9 " %c10@" SONDE_AT_("144")
#define SONDE_OPERANDS_11      SONDE_OPERANDS_10 " %c11@" SONDE_AT_("160")
#define SONDE_OPERANDS_12      SONDE_OPERANDS_11 " %c12@" SONDE_AT_("176")
#define SONDE_OPERANDS_13      "" /* unreachable: SONDE_EACH_13 fails to compile first */

#endif
