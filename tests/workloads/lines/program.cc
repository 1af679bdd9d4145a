// As program.c, in C++: a member function of a template, inlined into one of a class.
#include "fire.h"

volatile unsigned long sink;
namespace shop
{
template <typename T> struct Till {
    T sum{};
    __attribute__((always_inline)) void ring(T value)
    {
        for (T i = 0; i < value; i++) {
            sum += i;
            FIRE();
        }
        sink = sum;
    }
};
struct Counter {
    __attribute__((noinline)) void serve(long n)
    {
        Till<long> till;
        till.ring(n);
    }
};
} // namespace shop
int main(int argc, char **)
{
    shop::Counter counter;
    for (int i = 0; i < 5; i++)
        counter.serve(4 + argc);
}
