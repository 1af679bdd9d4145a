/* Calls a tiny function of a shared library for ever, through the PLT: a good share of the samples falls into the stub, where the
 * frame is not yet what the library's function will make of it. `plt [SECONDS]` */
#include "subject.h"

int plt_tiny(int x);

KEEP static int plt_caller(void)
{
    int x = 0;
    while (!subject_over)
        x = plt_tiny(x);
    return x;
}

int main(int argc, char **argv)
{
    subject_end_after(subject_seconds(argc, argv, 1));
    subject_ready("main;plt_caller");
    int x = plt_caller();
    STAY;
    return subject_end() + (x & 0);
}
