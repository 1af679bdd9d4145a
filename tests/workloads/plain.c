/* Passes a probe of sys/sdt.h's kind without a semaphore, plain:tick, a hundred times a second. */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    printf("pid %d\nready\n", getpid());
    fflush(stdout);
    for (;; usleep(10000))
        __asm__ volatile("990: nop\n"
                         ".pushsection .note.stapsdt, \"\", @note\n.balign 4\n.4byte 8, 992f - 991f, 3\n.asciz \"stapsdt\"\n"
                         "991: .8byte 990b, _base, 0\n.asciz \"plain\", \"tick\", \"\"\n992: .balign 4\n.popsection\n"
                         ".pushsection .stapsdt.base, \"a\"\n_base: .space 1\n.popsection\n");
}
