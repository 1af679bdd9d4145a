/* Conversion of probe arguments of any scalar type to struct sonde_value; used by the macros of probe.h and
 * static_probe.h. C selects by _Generic, C++ by overloading. A type that no tracer could read (a struct, a long
 * double) does not compile. */
#ifndef SONDE_PROBE_VALUE_H
#define SONDE_PROBE_VALUE_H

#include <stdint.h>

enum sonde_value_kind {
    SONDE_VALUE_SIGNED,
    SONDE_VALUE_UNSIGNED, /* and pointers */
    SONDE_VALUE_DOUBLE,
};

struct sonde_value {
    uint64_t bits; /* sign-extended, or the bits of the double */
    uint64_t kind; /* enum sonde_value_kind */
};

static inline struct sonde_value sonde_value_of_signed_(int64_t x)
{
    struct sonde_value value = {(uint64_t)x, SONDE_VALUE_SIGNED};
    return value;
}

static inline struct sonde_value sonde_value_of_unsigned_(uint64_t x)
{
    struct sonde_value value = {x, SONDE_VALUE_UNSIGNED};
    return value;
}

static inline struct sonde_value sonde_value_of_pointer_(const volatile void *x)
{
    return sonde_value_of_unsigned_((uint64_t)(uintptr_t)x);
}

static inline struct sonde_value sonde_value_of_double_(double x)
{
    struct sonde_value value = {0, SONDE_VALUE_DOUBLE};
    __builtin_memcpy(&value.bits, &x, sizeof(x));
    return value;
}

/* SONDE_VALUE_(x): x as a struct sonde_value.
 * SONDE_SIZE_(x): a constant, the size of x in bytes as a USDT note states it, negative for a signed type; x is not
 * evaluated. */
#ifndef __cplusplus

/* clang-format off */
#define SONDE_VALUE_(x)                                                                                      \
    _Generic((x),                                                                                            \
        signed char: sonde_value_of_signed_, short: sonde_value_of_signed_, int: sonde_value_of_signed_,     \
        long: sonde_value_of_signed_, long long: sonde_value_of_signed_,                                     \
        char: SONDE_OF_CHAR_, _Bool: sonde_value_of_unsigned_,                                               \
        unsigned char: sonde_value_of_unsigned_, unsigned short: sonde_value_of_unsigned_,                   \
        unsigned: sonde_value_of_unsigned_, unsigned long: sonde_value_of_unsigned_,                         \
        unsigned long long: sonde_value_of_unsigned_,                                                        \
        float: sonde_value_of_double_, double: sonde_value_of_double_,                                       \
        default: sonde_value_of_pointer_)(x)
#define SONDE_SIZE_(x)                                                                                       \
    _Generic((x),                                                                                            \
        signed char: -1, short: -2, int: -4, long: -(int)sizeof(long), long long: -8,                        \
        char: SONDE_SIZE_OF_CHAR_, _Bool: 1, unsigned char: 1, unsigned short: 2, unsigned: 4,               \
        unsigned long: (int)sizeof(long), unsigned long long: 8,                                             \
        default: 8)
/* clang-format on */
#ifdef __CHAR_UNSIGNED__
#define SONDE_OF_CHAR_      sonde_value_of_unsigned_
#define SONDE_SIZE_OF_CHAR_ 1
#else
#define SONDE_OF_CHAR_      sonde_value_of_signed_
#define SONDE_SIZE_OF_CHAR_ -1
#endif

#else

/* sonde_size_of_ is declared and never defined: sizeof of its result gives the size, plus 16 for a signed type. */
#define SONDE_OVERLOAD_(type, convert, code)                                                                           \
    static inline struct sonde_value sonde_value_of_(type x)                                                           \
    {                                                                                                                  \
        return convert(x);                                                                                             \
    }                                                                                                                  \
    char(&sonde_size_of_(type))[code];

extern "C++" {
SONDE_OVERLOAD_(signed char, sonde_value_of_signed_, 17)
SONDE_OVERLOAD_(short, sonde_value_of_signed_, 18)
SONDE_OVERLOAD_(int, sonde_value_of_signed_, 20)
SONDE_OVERLOAD_(long, sonde_value_of_signed_, 24)
SONDE_OVERLOAD_(long long, sonde_value_of_signed_, 24)
#ifdef __CHAR_UNSIGNED__
SONDE_OVERLOAD_(char, sonde_value_of_unsigned_, 1)
#else
SONDE_OVERLOAD_(char, sonde_value_of_signed_, 17)
#endif
SONDE_OVERLOAD_(bool, sonde_value_of_unsigned_, 1)
SONDE_OVERLOAD_(unsigned char, sonde_value_of_unsigned_, 1)
SONDE_OVERLOAD_(unsigned short, sonde_value_of_unsigned_, 2)
SONDE_OVERLOAD_(unsigned, sonde_value_of_unsigned_, 4)
SONDE_OVERLOAD_(unsigned long, sonde_value_of_unsigned_, 8)
SONDE_OVERLOAD_(unsigned long long, sonde_value_of_unsigned_, 8)
SONDE_OVERLOAD_(float, sonde_value_of_double_, 8)
SONDE_OVERLOAD_(double, sonde_value_of_double_, 8)
SONDE_OVERLOAD_(const volatile void *, sonde_value_of_pointer_, 8)
}

#define SONDE_VALUE_(x) sonde_value_of_(x)
#define SONDE_SIZE_(x)                                                                                                 \
    (sizeof(sonde_size_of_(x)) > 16 ? 16 - (int)sizeof(sonde_size_of_(x)) : (int)sizeof(sonde_size_of_(x)))

#endif

/* SONDE_EACH_(m, a, b): m(a) m(b), for up to 12 arguments; the macro supplies its own separators.
 * SONDE_COUNT_(0, a, b): 2; for 13 to 24 arguments, 13. The first argument is required because strict ISO modes forbid
 * an empty `...` in a macro without named parameters. SONDE_VALUES_(0, a, b): initialisers of an array of values,
 * preceded by a placeholder so that the array is never empty. */
#define SONDE_VALUES_(z, ...) sonde_value_of_unsigned_(z) SONDE_EACH_(SONDE_NEXT_VALUE_, ##__VA_ARGS__)
#define SONDE_NEXT_VALUE_(x)  , SONDE_VALUE_(x)
#define SONDE_COUNT_(z, ...)                                                                                           \
    SONDE_26TH_(z, ##__VA_ARGS__, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2,  \
                1, 0, )
#define SONDE_26TH_(z, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w, x, y, n, ...) n
#define SONDE_JOIN_(a, b)                                                                              SONDE_JOIN2_(a, b)
#define SONDE_JOIN2_(a, b)                                                                             a##b
#define SONDE_EACH_(m, ...)                                                                            SONDE_JOIN_(SONDE_EACH_, SONDE_COUNT_(m, ##__VA_ARGS__))(m, ##__VA_ARGS__)
#define SONDE_EACH_0(m)
#define SONDE_EACH_1(m, x)       m(x)
#define SONDE_EACH_2(m, x, ...)  m(x) SONDE_EACH_1(m, __VA_ARGS__)
#define SONDE_EACH_3(m, x, ...)  m(x) SONDE_EACH_2(m, __VA_ARGS__)
#define SONDE_EACH_4(m, x, ...)  m(x) SONDE_EACH_3(m, __VA_ARGS__)
#define SONDE_EACH_5(m, x, ...)  m(x) SONDE_EACH_4(m, __VA_ARGS__)
#define SONDE_EACH_6(m, x, ...)  m(x) SONDE_EACH_5(m, __VA_ARGS__)
#define SONDE_EACH_7(m, x, ...)  m(x) SONDE_EACH_6(m, __VA_ARGS__)
#define SONDE_EACH_8(m, x, ...)  m(x) SONDE_EACH_7(m, __VA_ARGS__)
#define SONDE_EACH_9(m, x, ...)  m(x) SONDE_EACH_8(m, __VA_ARGS__)
#define SONDE_EACH_10(m, x, ...) m(x) SONDE_EACH_9(m, __VA_ARGS__)
#define SONDE_EACH_11(m, x, ...) m(x) SONDE_EACH_10(m, __VA_ARGS__)
#define SONDE_EACH_12(m, x, ...) m(x) SONDE_EACH_11(m, __VA_ARGS__)
#define SONDE_EACH_13(...)       , a_probe_takes_at_most_12_arguments /* undeclared: the compiler reports its name */

#endif
