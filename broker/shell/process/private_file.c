/* private_file.c: see private_file.h. */
#include "private_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disk.h"

/* Returns NULL, or the reason not to trust the file. A systemd credential may have group bits: systemd may give the
 * user access by an ACL, and then the group bits only show the ACL's mask and give the group no access. */
static const char *judge(int handle, const char *path) {
    struct stat status;
    mode_t others = credential_is(path) ? S_IRWXO | S_IWGRP | S_IXGRP : S_IRWXO | S_IRWXG;
    if (fstat(handle, &status) != 0) return "cannot be read";
    if (!S_ISREG(status.st_mode)) return "is not a file";
    if ((status.st_mode & others) != 0) return "can be used by other users; run chmod 600 on it, or create a new one";
    if (status.st_uid != geteuid() && status.st_uid != 0)
        return "belongs to another user; chown it to the user that runs tarryd";
    return NULL;
}

static void refuse_unreadable(const struct private_file *file, int error, char *message, size_t size) {
    if (error == EACCES)
        snprintf(message, size,
                 "%s %s cannot be read by uid %u, the user of tarryd: chown %u %s; under systemd omit the option --%s "
                 "and give the unit LoadCredential=%s:%s",
                 file->what, file->path, (unsigned)geteuid(), (unsigned)geteuid(), file->path, file->option,
                 file->option, file->path);
    else
        snprintf(message, size, "%s %s cannot be read: %s%s", file->what, file->path, strerror(error),
                 error == ENOENT ? file->remedy : "");
}

int private_file_read(const struct private_file *file, void *out, size_t size, size_t *out_size, char *message,
                      size_t message_size) {
    int handle = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a FIFO must not block the start */
    if (handle < 0) {
        refuse_unreadable(file, errno, message, message_size);
        return 1;
    }
    const char *problem = judge(handle, file->path);
    int64_t count = problem == NULL ? disk_read_all(&disk_posix, handle, out, size, 0) : 0;
    close(handle);
    if (count < 0)
        snprintf(message, message_size, "%s %s cannot be read: %s", file->what, file->path, strerror((int)-count));
    else if (problem != NULL)
        snprintf(message, message_size, "%s %s %s", file->what, file->path, problem);
    else
        *out_size = (size_t)count;
    return count < 0 || problem != NULL;
}

int private_file_use(const struct private_file *file, size_t size, private_file_take take, void *out, char *message,
                     size_t message_size) {
    uint8_t text[PRIVATE_FILE_TEXT_MAX];
    size_t text_size = 0;
    assert(size <= sizeof(text));
    int result = private_file_read(file, text, size, &text_size, message, message_size);
    const char *problem = result == 0 ? take(out, text, text_size) : NULL;
    sodium_memzero(text, sizeof(text));
    if (problem == NULL) return result;
    snprintf(message, message_size, "%s %s %s", file->what, file->path, problem);
    return 1;
}
