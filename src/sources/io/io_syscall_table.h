/* The system calls that concern files, by their numbers: included once for each table of numbers, after the header that
 * defines those. An architecture lacks some of them. */
static const struct {
    int number;
    struct io_syscall call;
} entries[] = {
    {__NR_read, {IO_READ, IO_ARGUMENT_FIRST, .offset = IO_OFFSET_POSITION}},
    {__NR_write, {IO_WRITE, IO_ARGUMENT_FIRST, .offset = IO_OFFSET_POSITION}},
    {__NR_pread64, {IO_READ, IO_ARGUMENT_FIRST, .offset = IO_OFFSET_FOURTH}},
    {__NR_pwrite64, {IO_WRITE, IO_ARGUMENT_FIRST, .offset = IO_OFFSET_FOURTH}},
    {__NR_readv, {IO_READ, IO_ARGUMENT_FIRST, .offset = IO_OFFSET_POSITION}},
    {__NR_writev, {IO_WRITE, IO_ARGUMENT_FIRST, .offset = IO_OFFSET_POSITION}},
    {__NR_preadv, {IO_READ, IO_ARGUMENT_FIRST, .offset = IO_OFFSET_FOURTH}},
    {__NR_pwritev, {IO_WRITE, IO_ARGUMENT_FIRST, .offset = IO_OFFSET_FOURTH}},
    {__NR_preadv2, {IO_READ, IO_ARGUMENT_FIRST, .offset = IO_OFFSET_FOURTH}},
    {__NR_pwritev2, {IO_WRITE, IO_ARGUMENT_FIRST, .offset = IO_OFFSET_FOURTH}},
    {__NR_sendfile, {IO_READ, IO_ARGUMENT_SECOND, IO_WRITE, IO_ARGUMENT_FIRST}},
    {__NR_splice, {IO_READ, IO_ARGUMENT_FIRST, IO_WRITE, IO_ARGUMENT_THIRD}},
    {__NR_copy_file_range, {IO_READ, IO_ARGUMENT_FIRST, IO_WRITE, IO_ARGUMENT_THIRD}},
    {__NR_openat, {IO_OPEN, IO_ARGUMENT_RESULT, .path = IO_ARGUMENT_SECOND}},
    {__NR_openat2, {IO_OPEN, IO_ARGUMENT_RESULT, .path = IO_ARGUMENT_SECOND}},
    {__NR_open_by_handle_at, {IO_OPEN, IO_ARGUMENT_RESULT, .path = IO_ARGUMENT_RESULT}},
    {__NR_close, {IO_CLOSE, IO_ARGUMENT_FIRST}},
    {__NR_fsync, {IO_SYNC, IO_ARGUMENT_FIRST}},
    {__NR_fdatasync, {IO_SYNC, IO_ARGUMENT_FIRST}},
    {__NR_sync_file_range, {IO_SYNC, IO_ARGUMENT_FIRST}},
    {__NR_syncfs, {IO_SYNC, IO_ARGUMENT_FIRST}},
    {__NR_fallocate, {IO_ALLOCATE, IO_ARGUMENT_FIRST}},
    {__NR_truncate, {IO_TRUNCATE, IO_ARGUMENT_PATH}},
    {__NR_ftruncate, {IO_TRUNCATE, IO_ARGUMENT_FIRST}},
    {__NR_fstat, {IO_STAT, IO_ARGUMENT_FIRST}},
    {__NR_statx, {IO_STAT, IO_ARGUMENT_STATX, .path = IO_ARGUMENT_SECOND}},
    {__NR_getdents64, {IO_LIST, IO_ARGUMENT_FIRST}},
    {__NR_mkdirat, {IO_MKDIR, IO_ARGUMENT_PATH, .path = IO_ARGUMENT_SECOND}},
    {__NR_unlinkat, {IO_UNLINK, IO_ARGUMENT_REMOVE, .path = IO_ARGUMENT_SECOND}},
    {__NR_renameat, {IO_RENAME, IO_ARGUMENT_PATH, .path = IO_ARGUMENT_SECOND}},
    {__NR_renameat2, {IO_RENAME, IO_ARGUMENT_PATH, .path = IO_ARGUMENT_SECOND}},
    {__NR_linkat, {IO_LINK, IO_ARGUMENT_PATH, .path = IO_ARGUMENT_SECOND}},
    {__NR_symlinkat, {IO_LINK, IO_ARGUMENT_PATH, .path = IO_ARGUMENT_THIRD}},
    {__NR_io_setup, {IO_READ, IO_AIO_SETUP}},
    {__NR_io_submit, {IO_READ, IO_AIO_SUBMIT}},
    {__NR_io_getevents, {IO_READ, IO_AIO_EVENTS}},
    {__NR_io_pgetevents, {IO_READ, IO_AIO_EVENTS}},
    {__NR_io_destroy, {IO_READ, IO_AIO_DESTROY}},
#if defined(__NR_newfstatat)
    {__NR_newfstatat, {IO_STAT, IO_ARGUMENT_STAT, .path = IO_ARGUMENT_SECOND}},
#endif
#if defined(__NR_open) /* not on arm64 */
    {__NR_open, {IO_OPEN, IO_ARGUMENT_RESULT}},
    {__NR_creat, {IO_OPEN, IO_ARGUMENT_RESULT}},
    {__NR_stat, {IO_STAT, IO_ARGUMENT_PATH}},
    {__NR_lstat, {IO_STAT, IO_ARGUMENT_PATH}},
    {__NR_getdents, {IO_LIST, IO_ARGUMENT_FIRST}},
    {__NR_mkdir, {IO_MKDIR, IO_ARGUMENT_PATH}},
    {__NR_rmdir, {IO_RMDIR, IO_ARGUMENT_PATH}},
    {__NR_unlink, {IO_UNLINK, IO_ARGUMENT_PATH}},
    {__NR_rename, {IO_RENAME, IO_ARGUMENT_PATH}},
    {__NR_link, {IO_LINK, IO_ARGUMENT_PATH}},
    {__NR_symlink, {IO_LINK, IO_ARGUMENT_PATH, .path = IO_ARGUMENT_SECOND}},
#endif
#if defined(__NR_sendfile64) /* 32-bit programs */
    {__NR_sendfile64, {IO_READ, IO_ARGUMENT_SECOND, IO_WRITE, IO_ARGUMENT_FIRST}},
    {__NR_truncate64, {IO_TRUNCATE, IO_ARGUMENT_PATH}},
    {__NR_ftruncate64, {IO_TRUNCATE, IO_ARGUMENT_FIRST}},
    {__NR_stat64, {IO_STAT, IO_ARGUMENT_PATH}},
    {__NR_lstat64, {IO_STAT, IO_ARGUMENT_PATH}},
    {__NR_fstat64, {IO_STAT, IO_ARGUMENT_FIRST}},
    {__NR_fstatat64, {IO_STAT, IO_ARGUMENT_STAT, .path = IO_ARGUMENT_SECOND}},
#endif
};

static void fill(struct io_syscall *table)
{
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
        table[entries[i].number] = entries[i].call;
}
