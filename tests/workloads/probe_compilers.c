/* Probes of both kinds with every kind of argument, for compilers of C and C++ with their warnings on. Fires each once. */
#include <sonde/probe.h>
#ifdef __cplusplus
namespace other {
template <class T> void templated(T x) { SONDE_PROBE(check, templated, x, "text"); }
#else
#define templated(x) SONDE_PROBE(check, templated, x, "text")
#endif
static int use(void)
{
    struct sonde_provider *provider;
    struct sonde_probe *probe;
    enum { ONE } e = ONE;
    char array[4] = "abc";
    const volatile int constant = 1;
    if (sonde_provider_new("check", &provider) < 0 || sonde_probe_add(provider, "probe", "i32 a, str b", &probe) < 0)
        return 1;
    sonde_provider_load(provider);
    sonde_probe_fire(probe, e, array, constant, 'c', 1.5f, (short)1, 1ul, &provider, "s", 1 == 1, 12u, 3L);
    templated(1);
    templated('c');
    templated(2.5);
    if (SONDE_PROBE_ENABLED(check, other))
        SONDE_PROBE(check, other, e, array, constant, 'c', 1.5f, (short)1, 1ul, &provider, "s", 1 == 1, 12u, 3L);
    sonde_provider_free(provider);
    return 0;
}
#ifdef __cplusplus
}
using other::use;
#endif
int main(void) { return use(); }
