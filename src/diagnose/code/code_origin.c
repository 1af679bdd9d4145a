/* Tables of libraries, by language; see code_origin.h. */
#include "diagnose/code/code_origin.h"

#include "base/cleanup.h"
#include "base/starts_with.h"

#include <string.h>

/* Tables end with NULL. */
static bool starts_with_any(const char *text, const char *const *starts)
{
    for (; *starts; starts++)
        if (starts_with(text, *starts))
            return true;
    return false;
}

static bool contains_any(const char *text, const char *const *parts)
{
    for (; *parts; parts++)
        if (strstr(text, *parts))
            return true;
    return false;
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- Python ---- */

/* "/usr/lib/python3.11/json/decoder.py", but not "/srv/lib/python/app.py" */
static bool is_in_python_library(const char *file)
{
    static const char *const names[] = {"/lib/python", "/lib64/python", NULL};
    for (size_t i = 0; names[i]; i++) {
        const char *at = strstr(file, names[i]);
        if (at && at[strlen(names[i])] >= '2' && at[strlen(names[i])] <= '9')
            return true;
    }
    return false;
}

/* The script that starts a package's command ("/srv/venv/bin/uvicorn"): it has no suffix. */
static bool is_command(const char *file)
{
    return strstr(file, "/bin/") && !strchr(base_of(file), '.');
}

static enum code_origin origin_of_python(const struct frame *f)
{
    static const struct {
        const char *file, *function; /* ends of the path, start of the name */
    } dispatchers[] = {
        {"/asyncio/base_events.py", "BaseEventLoop._run_once"},
        {"/asyncio/base_events.py", "BaseEventLoop.run_forever"},
        {"/asyncio/base_events.py", "_run_once"},
        {"/asyncio/base_events.py", "run_forever"},
        {"/socketserver.py", "BaseServer.serve_forever"},
        {"/socketserver.py", "serve_forever"},
        {"/threading.py", "Thread._bootstrap"},
        {"/threading.py", "_bootstrap"},
        {"/concurrent/futures/thread.py", "_worker"},
        {"/multiprocessing/process.py", "BaseProcess._bootstrap"},
    };
    static const char *const libraries[] = {"/site-packages/", "/dist-packages/", NULL};
    const size_t length = strlen(f->file);
    for (size_t i = 0; i < array_size(dispatchers); i++) {
        const size_t end = strlen(dispatchers[i].file);
        if (length >= end && strcmp(f->file + length - end, dispatchers[i].file) == 0 &&
            starts_with(f->function, dispatchers[i].function))
            return CODE_DISPATCHER;
    }
    return !f->file[0] || starts_with(f->file, "<frozen") || is_in_python_library(f->file) ||
                   contains_any(f->file, libraries) || is_command(f->file)
               ? CODE_LIBRARY
               : CODE_OWN;
}

/* ---- JavaScript, Java, .NET ---- */

static enum code_origin origin_of_javascript(const struct frame *f)
{
    static const char *const inside[] = {"/node_modules/", NULL};
    return !f->file[0] || starts_with(f->file, "node:") || starts_with(f->file, "internal/") ||
                   contains_any(f->file, inside)
               ? CODE_LIBRARY
               : CODE_OWN;
}

/* The class: "void java.util.HashMap.resize()" has the type of the result first. */
static const char *class_of(const char *function)
{
    const char *end = strchr(function, '('), *space = NULL;
    for (const char *at = function; *at && at != end; at++)
        if (*at == ' ')
            space = at;
    return space ? space + 1 : function;
}

/* HotSpot's own code has names without a class: "StubRoutines (1)", "I2C/C2I adapters". */
static enum code_origin origin_of_java(const struct frame *f)
{
    static const char *const libraries[] = {"java.",
                                            "javax.",
                                            "jdk.",
                                            "sun.",
                                            "com.sun.",
                                            "jakarta.",
                                            "kotlin.",
                                            "kotlinx.",
                                            "scala.",
                                            "akka.",
                                            "groovy.",
                                            "org.springframework.",
                                            "org.apache.",
                                            "org.eclipse.",
                                            "io.netty.",
                                            "io.undertow.",
                                            "io.vertx.",
                                            "io.micronaut.",
                                            "io.quarkus.",
                                            "reactor.",
                                            "org.hibernate.",
                                            "com.zaxxer.",
                                            "com.fasterxml.",
                                            "com.google.",
                                            "org.postgresql.",
                                            "com.mysql.",
                                            "org.slf4j.",
                                            "ch.qos.",
                                            "org.glassfish.",
                                            "org.jboss.",
                                            NULL};
    const char *class = class_of(f->function);
    const bool is_method = class[strcspn(class, ".(")] == '.';
    return is_method && class[0] != '<' && !starts_with_any(class, libraries) ? CODE_OWN : CODE_LIBRARY;
}

static enum code_origin origin_of_dotnet(const struct frame *f)
{
    static const char *const libraries[] = {"System.", "Microsoft.", "Internal.", "Interop", NULL};
    return f->function[0] && !starts_with_any(class_of(f->function), libraries) ? CODE_OWN : CODE_LIBRARY;
}

/* ---- native code ---- */

/* Whether a name of Go, C++ or Rust is of the language's library. Go's names are "package/path.function"; compilers of
 * C append to names with a dot ("sort.part.0"). */
static bool is_language_library(const char *function)
{
    static const char *const others[] = {
        "std::",   "__gnu_cxx::", "core::",  "alloc::",  "<std::",   "<core::", "<alloc::",
        "boost::", "tokio::",     "hyper::", "<tokio::", "<hyper::", NULL};
    static const char *const go_modules[] = {"golang.org/",
                                             "google.golang.org/",
                                             "go.uber.org/",
                                             "gorm.io/",
                                             "github.com/gin-gonic/",
                                             "github.com/gorilla/",
                                             "github.com/labstack/",
                                             "github.com/go-chi/",
                                             "github.com/gofiber/",
                                             "github.com/valyala/",
                                             "github.com/jackc/",
                                             "github.com/lib/pq",
                                             "github.com/go-sql-driver/",
                                             "github.com/redis/",
                                             NULL};
    static const char *const go_packages[] = {
        "archive",  "bufio",  "bytes",   "cmp",    "compress", "container", "context", "crypto", "database", "embed",
        "encoding", "errors", "expvar",  "flag",   "fmt",      "go",        "hash",    "html",   "image",    "internal",
        "io",       "iter",   "log",     "maps",   "math",     "mime",      "net",     "os",     "path",     "plugin",
        "reflect",  "regexp", "runtime", "slices", "sort",     "strconv",   "strings", "sync",   "syscall",  "testing",
        "text",     "time",   "unicode", "unique", "unsafe",   "vendor",    "weak",    NULL};
    static const char *const c_suffixes[] = {".part.", ".constprop.", ".isra.", ".cold", ".lto_priv", NULL};
    if (starts_with_any(function, others) || starts_with_any(class_of(function), others) ||
        starts_with_any(function, go_modules))
        return true;
    const size_t length = strcspn(function, "./");
    if (!function[length] || contains_any(function, c_suffixes))
        return false;
    for (size_t i = 0; go_packages[i]; i++)
        if (strlen(go_packages[i]) == length && strncmp(function, go_packages[i], length) == 0)
            return true;
    return false;
}

static enum code_origin origin_of_native(const struct frame *f, bool has_runtime)
{
    static const char *const system[] = {"/lib/", "/lib64/", "/usr/", "[", NULL};
    static const char *const inside[] = {"/site-packages/", "/dist-packages/", "/node_modules/", "/lib-dynload/", NULL};
    static const char *const libraries[] = {"libc.",     "libm.",      "libpthread", "ld-",     "libstdc++", "libgcc_s",
                                            "libpython", "libjvm.",    "libjli.",    "libjava", "libnode.",  "libuv.",
                                            "libssl.",   "libcrypto.", "libcoreclr", "libc++",  "libasan",   NULL};
    static const char *const runtimes[] = {"python", "node", "java", "ruby", "php", "perl", "beam.smp", "dotnet", NULL};
    const char *base = base_of(f->mapping);
    const bool is_shared = strstr(base, ".so");
    if (!f->mapping[0] || f->mapping[0] == '[' || contains_any(f->mapping, inside) ||
        starts_with_any(base, libraries) ||
        (is_shared ? starts_with_any(f->mapping, system) : has_runtime || starts_with_any(base, runtimes)))
        return CODE_LIBRARY;
    return is_language_library(f->function) ? CODE_LIBRARY : CODE_OWN;
}

enum code_origin code_origin(const struct frame *f, bool has_runtime)
{
    switch (f->kind) {
    case FRAME_INTERPRETED:
        return origin_of_python(f);
    case FRAME_V8JS:
        return origin_of_javascript(f);
    case FRAME_JVM:
        return origin_of_java(f);
    case FRAME_DOTNET:
        return origin_of_dotnet(f);
    case FRAME_NATIVE:
        return origin_of_native(f, has_runtime);
    case FRAME_KERNEL:
    case FRAME_BPF:
    case FRAME_TRUNCATED:
    case FRAME_WAIT:
    case FRAME_GPU:
    case FRAME_KIND_COUNT:
        break;
    }
    return CODE_LIBRARY;
}
