/* Where an object's bytes lie so that the kernel has a file for them: in memory, or in a directory that the
 * program chose. */
#pragma once

#include "image.h"

/* A sealed file in memory that /proc/PID/maps shows as "/memfd:PROVIDER (deleted)"; its descriptor. */
int probe_file_in_memory(const char *provider, const struct probe_image *image);

/* DIRECTORY/PROVIDER-BUILDID.so, made unless it is there: a descriptor to read it. The file is whole from the
 * moment that it has its name. -EPERM: what has the name is not ours, or others may write it; or files there are not to
 * be executed, and none was left. */
int probe_file_in_directory(const char *directory, const char *provider, const struct probe_image *image);
