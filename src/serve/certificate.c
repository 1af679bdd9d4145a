/* The files of a TLS certificate; see certificate.h. */
#include "serve/certificate.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int refuse(const char *setting, const char *path, int error, const char *why)
{
    log_error("%s: %s: %s", setting, path, why);
    return error;
}

/* A regular file with text. */
static int read_text(const char *setting, const char *path, bool is_secret, char **ret)
{
    struct stat st;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0) {
        const int r = -errno;
        return refuse(setting, path, r, strerror(-r));
    }
    if (!S_ISREG(st.st_mode))
        return refuse(setting, path, -EINVAL, "is no regular file");
    if ((size_t)st.st_size > CERTIFICATE_FILE_MAX_BYTES)
        return refuse(setting, path, -EFBIG, "is larger than 256 KiB");
    if (is_secret && st.st_mode & S_IROTH)
        log_warning("%s: all users of this machine can read %s, which is a secret: chmod o= %s", setting, path, path);
    char *text = calloc(1, CERTIFICATE_FILE_MAX_BYTES + 1);
    if (!text)
        return -ENOMEM;
    size_t size = 0;
    ssize_t n = 1;
    while (size < CERTIFICATE_FILE_MAX_BYTES && (n = read(fd, text + size, CERTIFICATE_FILE_MAX_BYTES - size)) > 0)
        size += (size_t)n;
    if (n < 0) {
        const int r = -errno;
        free(text);
        return refuse(setting, path, r, strerror(-r));
    }
    *ret = text;
    return 0;
}

int certificate_read(const struct certificate_files *files, struct certificate *ret)
{
    struct certificate c = {.files = *files};
    file_watch_start(&c.chain_watch, files->chain);
    file_watch_start(&c.key_watch, files->key);
    int r = 0;
    if (files->chain && files->key)
        r = read_text(files->chain_setting, files->chain, false, &c.chain)
                ?: read_text(files->key_setting, files->key, true, &c.key);
    if (r < 0)
        certificate_clear(&c);
    else
        *ret = c;
    return r;
}

void certificate_log_unusable(const struct certificate *c)
{
    log_error("%s and %s cannot be used: the first must have a certificate in PEM, the second the key of that "
              "certificate, without a password",
              c->files.chain_setting, c->files.key_setting);
}

bool certificate_has_changed(struct certificate *c)
{
    const bool chain = file_watch_has_changed(&c->chain_watch, c->files.chain),
               key = file_watch_has_changed(&c->key_watch, c->files.key);
    return chain || key;
}

void certificate_clear(struct certificate *c)
{
    if (c->key)
        explicit_bzero(c->key, CERTIFICATE_FILE_MAX_BYTES);
    free(c->key);
    free(c->chain);
    c->key = c->chain = NULL;
}
