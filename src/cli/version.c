/* `sonde version`: which build this is, the versions of its formats, and its libraries. Libraries that are loaded when
 * first needed are loaded here, with the code that loads them elsewhere, so that a missing package shows. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/standard_output.h"
#include "cli/options.h"
#include "cli/subcommands.h"
#include "resolve/lines/dwarf_library.h"
#include "serve/page.h"
#include "sources/events/record_file.h"

#include "revision.h" /* made by meson.build */

#include <bpf/libbpf.h>
#include <curl/curl.h>
#include <jansson.h>
#include <microhttpd.h>
#include <uv.h>
#include <yaml.h>

#define PROFILES_PROTOCOL "v1development" /* of OpenTelemetry's profiles, which have no stable version yet */

struct library {
    const char *name, *version; /* version NULL: cannot be loaded */
    const char *needed_for;     /* NULL: linked, so that nothing starts without it */
};

static const char *curl_library_version(void)
{
    return curl_global_init(CURL_GLOBAL_NOTHING) == CURLE_OK ? curl_version_info(CURLVERSION_NOW)->version : NULL;
}

static const char *dwarf_library_version(void)
{
    struct dwarf_library library;
    return dwarf_library_load(&library) == 0 ? library.dwfl_version(NULL) : NULL;
}

/* "v1.1" of libbpf as "1.1". */
static const char *without_v(const char *version)
{
    return version[0] == 'v' ? version + 1 : version;
}

static void put_json(const struct library *libraries, size_t count, struct buf *out)
{
    buf_puts(out, "{\"version\":");
    buf_put_json_string(out, SONDE_VERSION);
    buf_puts(out, ",\"revision\":");
    if (SONDE_REVISION[0])
        buf_put_json_string(out, SONDE_REVISION);
    else
        buf_puts(out, "null");
    buf_printf(out, ",\"formats\":{\"api\":%d,\"recording\":%d,\"otlp_profiles\":\"%s\"},\"libraries\":[",
               PAGE_API_VERSION, RECORD_FILE_VERSION, PROFILES_PROTOCOL);
    for (size_t i = 0; i < count; i++) {
        buf_puts(out, i ? ",{\"name\":" : "{\"name\":");
        buf_put_json_string(out, libraries[i].name);
        buf_puts(out, ",\"version\":");
        if (libraries[i].version)
            buf_put_json_string(out, libraries[i].version);
        else
            buf_puts(out, "null");
        if (libraries[i].needed_for) {
            buf_puts(out, ",\"needed_for\":");
            buf_put_json_string(out, libraries[i].needed_for);
        }
        buf_putc(out, '}');
    }
    buf_puts(out, "]}\n");
}

static void put_text(const struct library *libraries, size_t count, struct buf *out)
{
    buf_printf(out, "sonde %s\n", SONDE_VERSION);
    if (SONDE_REVISION[0])
        buf_printf(out, "  %-22s %s\n", "revision", SONDE_REVISION);
    buf_printf(out, "  %-22s %d\n  %-22s %d\n  %-22s %s\n", "HTTP API", PAGE_API_VERSION, "recordings",
               RECORD_FILE_VERSION, "OTLP profiles", PROFILES_PROTOCOL);
    for (size_t i = 0; i < count; i++) {
        buf_printf(out, "  %-22s ", libraries[i].name);
        buf_puts(out, libraries[i].version ? libraries[i].version : "not installed; needed for ");
        buf_printf(out, "%s\n", libraries[i].version ? "" : libraries[i].needed_for);
    }
}

static int run_version(int argc, char **argv)
{
    bool json = false;
    const struct option_spec specs[] = {{0, "json", OPTION_FLAG, &json, NULL, "as one JSON object", 0, 0}, {0}};
    int r = options_parse(&subcommand_version, specs, argc, argv, NULL);
    if (r != 0)
        return r < 0 ? r : 0;
    const struct library libraries[] = {
        {"libbpf", without_v(libbpf_version_string()), NULL},
        {"libjansson", jansson_version_str(), NULL},
        {"libuv", uv_version_string(), NULL},
        {"libyaml", yaml_get_version_string(), NULL},
        {"libmicrohttpd", MHD_get_version(), "the page, /metrics and the API"},
        {"libcurl", curl_library_version(), "sending over OTLP, queries to an agent, pods and debuginfod"},
        {"libdw", dwarf_library_version(), "source lines of native code"},
    };
    _cleanup_buf_ struct buf out = {0};
    (json ? put_json : put_text)(libraries, array_size(libraries), &out);
    return standard_output_write("version", &out);
}

const struct subcommand subcommand_version = {
    .name = "version",
    .synopsis = "[--json]",
    .summary = "Print the version, the versions of formats, and the libraries",
    .details = "Needs no privileges and starts nothing.",
    .run = run_version,
};
