/* Provides the file that backs a mapped ELF object, because the kernel attaches uprobes to files: a memfd, or a file
 * in a directory that the program chose. */
#pragma once

#include "image.h"

/* Creates a sealed memfd, which /proc/PID/maps shows as "/memfd:PROVIDER (deleted)". Returns its descriptor, or
 * -errno. */
int probe_file_in_memory(const char *provider, const struct probe_image *image);

/* Opens DIRECTORY/PROVIDER-BUILDID.so for reading, creating it if it does not exist; the file gets its name only when
 * complete. Returns a descriptor. -EPERM: a file of this name has another owner, other content or permits writing by
 * others; or files in the directory cannot be executed, and none was left there. */
int probe_file_in_directory(const char *directory, const char *provider, const struct probe_image *image);
