// One of many libraries (FILE_NUMBER), with functions that call one another, each with an event in it
// (getppid()).
#include "../lines/fire.h"

#define JOINED(a, b) a##b
#define NAMED(a, b)  JOINED(a, b)
#define FUNCTION(I, BELOW)                                                                                   \
    __attribute__((noinline)) void function_##I(int depth, long)                                             \
    {                                                                                                        \
        FIRE();                                                                                              \
        if (depth)                                                                                           \
            function_##BELOW(depth - 1, I##L);                                                               \
        sink++;                                                                                              \
    }

static volatile unsigned long sink;
namespace NAMED(file_, FILE_NUMBER)
{
__attribute__((noinline)) void function_0(int, long)
{
    FIRE();
    sink++;
}
FUNCTION(1, 0)
FUNCTION(2, 1) FUNCTION(3, 2) FUNCTION(4, 3) FUNCTION(5, 4) FUNCTION(6, 5) FUNCTION(7, 6) FUNCTION(8, 7)
    FUNCTION(9, 8) FUNCTION(10, 9) FUNCTION(11, 10) FUNCTION(12, 11) FUNCTION(13, 12) FUNCTION(14, 13)
        FUNCTION(15, 14) FUNCTION(16, 15) FUNCTION(17, 16) FUNCTION(18, 17) FUNCTION(19, 18)
} // namespace NAMED(file_,FILE_NUMBER)

extern "C" void NAMED(enter_, FILE_NUMBER)(int depth)
{
    NAMED(file_, FILE_NUMBER)::function_19(depth, 1);
    sink++;
}
