/* Pages of the program and its libraries. */
#pragma once

#include <stddef.h>

/* Gives back the pages of read-only mappings of files that hold no data of their own: the kernel reads a page again,
 * usually from its page cache, when it is next used. Start-up touches megabytes that are not used after it: the BPF
 * programs inside the executable, and libraries that register themselves. Returns the bytes of the mappings, resident
 * or not; 0: /proc/self/smaps cannot be read. */
size_t file_pages_release(void);
