/* An NFS server of the kernel and its client on one machine, in a network namespace of the test's own: other servers
 * and clients of the machine are not touched, and neither mountd nor rpcbind is needed. */
#pragma once

#include <stdbool.h>

/* Moves this process into network and mount namespaces of its own, and serves a tmpfs there with NFS 4.2. False: not
 * possible here, with the reason printed; 77 is then the program's exit status. Ends with the program. */
bool io_nfs_begin(void);

/* The tmpfs that is served, and the file system that configures the server; NULL: nothing is served. */
const char *io_nfs_exported(void);
const char *io_nfs_control(void);

/* Makes the folder NAME in the tmpfs and mounts it over NFS, until the program ends: before Linux 6.8 another mount may
 * get the ID of one that has ended, and counts with it. PATH is then removed. 0 or -errno. */
int io_nfs_mount(const char *name, const char *path);
