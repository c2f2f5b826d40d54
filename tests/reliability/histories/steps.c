/* Processes stop before each call of the system for one file, so that a scheduler chooses who goes on (LD_PRELOAD).

   step_begin(path, n)   from now on this process stops before each call for that file, and its n-th sync fails with EIO;
                         with NULL it stops no more
   step_now()            stop here

   Who waits for a lock tries to take it each time that it goes on, as if a signal had ended the wait. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int active;
static dev_t device;
static ino_t inode;
static long syncs;

void step_begin(const char *path, long fail) {
    struct stat about;
    active = path && !stat(path, &about);
    if (active) {
        device = about.st_dev;
        inode = about.st_ino;
        syncs = fail;
    }
}

void step_now(void) {
    if (active) raise(SIGSTOP);
}

static int stopped(int fd) {
    struct stat about;
    int error = errno, ours = active && !fstat(fd, &about) && about.st_ino == inode && about.st_dev == device;
    if (ours) step_now();
    errno = error;
    return ours;
}

static int synced(int fd, long call) {
    if (stopped(fd) && --syncs == 0) {
        errno = EIO;
        return -1;
    }
    return syscall(call, fd);
}

static int control(int fd, int command, void *given) {
    int locks = command == F_OFD_SETLK || command == F_OFD_SETLKW || command == F_OFD_GETLK;
    if (!locks || !stopped(fd)) return syscall(SYS_fcntl, fd, command, given);
    int failed = syscall(SYS_fcntl, fd, command == F_OFD_SETLKW ? F_OFD_SETLK : command, given);
    if (failed && command == F_OFD_SETLKW && (errno == EAGAIN || errno == EACCES)) errno = EINTR;
    return failed;
}

#define GIVEN(last) va_list list; va_start(list, last); void *given = va_arg(list, void *); va_end(list)
int fcntl(int fd, int command, ...) { GIVEN(command); return control(fd, command, given); }
int fcntl64(int fd, int command, ...) { GIVEN(command); return control(fd, command, given); }
ssize_t pread(int fd, void *data, size_t n, off_t at) { stopped(fd); return syscall(SYS_pread64, fd, data, n, at); }
ssize_t pread64(int fd, void *data, size_t n, off64_t at) { return pread(fd, data, n, at); }
ssize_t pwrite(int fd, const void *data, size_t n, off_t at) { stopped(fd); return syscall(SYS_pwrite64, fd, data, n, at); }
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) { return pwrite(fd, data, n, at); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }
int fsync(int fd) { return synced(fd, SYS_fsync); }
int ftruncate(int fd, off_t size) { stopped(fd); return syscall(SYS_ftruncate, fd, size); }
int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }
int posix_fallocate(int fd, off_t at, off_t n) {
    int (*real)(int, off_t, off_t) = dlsym(RTLD_NEXT, "posix_fallocate64");
    stopped(fd);
    return real(fd, at, n);
}
int posix_fallocate64(int fd, off64_t at, off64_t n) { return posix_fallocate(fd, at, n); }
