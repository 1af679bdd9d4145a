/* An event at a known place, without a call: getppid(). */
#pragma once

#if defined(__x86_64__)
#define FIRE()                                                                                               \
    do {                                                                                                     \
        long result_;                                                                                        \
        __asm__ volatile("syscall" : "=a"(result_) : "a"(110L) : "rcx", "r11", "memory");                    \
    } while (0)
#else
#define FIRE()                                                                                               \
    do {                                                                                                     \
        register long number_ __asm__("x8") = 173;                                                           \
        register long result_ __asm__("x0");                                                                 \
        __asm__ volatile("svc 0" : "=r"(result_) : "r"(number_) : "memory");                                 \
    } while (0)
#endif
