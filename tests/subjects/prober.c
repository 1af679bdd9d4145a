/* Fires probes of libsonde again and again: `prober [DIRECTORY]`. Of a provider made at run time `subject:all` with every type of argument and,
 * added when it was loaded already, `subject:late`; of one known when it was compiled `subject:compiled`. */
#include <sonde/probe.h>

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct sonde_provider *provider;
    struct sonde_probe *all, *late;
    if (sonde_provider_new("subject", &provider) < 0 ||
        sonde_provider_set_directory(provider, argc > 1 ? argv[1] : NULL) < 0 ||
        sonde_probe_add(provider, "all",
                        "i8 a, u8 b, i16 c, u16 d, i32 e, u32 f, i64 g, u64 h, ptr i, str j, f64 k, i32 l", &all) < 0 ||
        sonde_provider_load(provider) < 0 || sonde_probe_add(provider, "late", "str text, f64 x, i64 n", &late) < 0 ||
        sonde_provider_load(provider) < 0)
        return 1;
    printf("pid %d\nready\n", getpid());
    fflush(stdout);
    for (int64_t n = 0;; n++) {
        sonde_probe_fire(all, -8, 8, -16, 16, -32, 32, -64, UINT64_MAX, (void *)0x1234, "text", 2.5, -12);
        sonde_probe_fire(late, "late text", -1234.5678, n);
        SONDE_PROBE(subject, compiled, n, "compiled text", (unsigned char)200, -3);
        usleep(10000);
    }
}
