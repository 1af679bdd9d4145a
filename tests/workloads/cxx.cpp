// C++ names and frames: templates, lambdas, virtual calls through std::function, and exceptions that are thrown and
// caught continuously (`cxx [SECONDS] [throw]`), so that samples hit the C++ run time's own unwinder.
#include "workload.h"

#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>

namespace shop {

KEEP static void leaf()
{
    WORKLOAD_BURN();
}

template <typename T> struct Till {
    KEEP T ring(T amount)
    {
        leaf();
        STAY;
        return amount + 1;
    }
};

struct Counter {
    virtual ~Counter() = default;
    virtual int count(const std::function<int(int)> &f) = 0;
};

struct Loud : Counter {
    KEEP int count(const std::function<int(int)> &f) override
    {
        int n = f(1);
        STAY;
        return n;
    }
};

KEEP static void thrower(int x)
{
    if (x >= 0)
        throw std::runtime_error("again");
}

KEEP static int throw_and_catch()
{
    int caught = 0;
    while (!workload_over) {
        try {
            thrower(caught);
        } catch (const std::exception &) {
            caught = (caught + 1) & 0xff;
        }
    }
    return caught;
}

} // namespace shop

int main(int argc, char **argv)
{
    workload_end_after(workload_seconds(argc, argv, 1));
    if (argc > 2 && std::strcmp(argv[2], "throw") == 0) {
        workload_ready("main;shop::throw_and_catch");
        int caught = shop::throw_and_catch();
        STAY;
        return workload_end() + (caught & 0);
    }
    shop::Loud loud;
    shop::Counter *counter = &loud;
    __asm__ volatile("" : "+r"(counter));
    auto add = [](int n) __attribute__((noinline)) {
        int sum = shop::Till<long>().ring(n) > 0;
        STAY;
        return sum;
    };
    // Between the virtual function and the lambda are the library's own invokers, inlined at the compiler's discretion.
    workload_ready("main;shop::Loud::count;...;main::{lambda(int)#1}::operator();shop::Till<long>::ring;shop::leaf");
    int n = counter->count(add);
    STAY;
    return workload_end() + (n & 0);
}
