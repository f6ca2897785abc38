/* asof_into.c: tarry audit --as-of T --into NEWDIR: a data directory as of an earlier moment.
 *
 * The first file in NEWDIR marks it as unfinished. Then this program writes the index, with the contents and replies
 * that were stored in the log; a log that begins at T; and the identity of a new member (identity.h). The member's
 * epochs are higher than those of the source, because the source continued after T. After all files are synced, the
 * mark is removed. A crash before that leaves a directory that neither the broker nor the tool opens; the operator
 * deletes it. The source is only read. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "asof.h"
#include "disk.h"
#include "identity.h"
#include "json_out.h"

#define NAME_ROOM 64 /* bytes reserved for the longest file name in a data directory */

struct target {
    struct asof *asof;
    const char *directory;
    char log[STORE_PATH_SIZE];
    char index[STORE_PATH_SIZE];
};

static int failed(struct target *target, const char *what, int error) {
    return store_damaged(&target->asof->store, "%s cannot be %s: %s", target->directory, what,
                         strerror(error < 0 ? -error : error));
}

static int make_file(const char *directory, const char *name) {
    char path[STORE_PATH_SIZE + NAME_ROOM];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int handle = disk_posix.open(disk_posix.context, path, O_RDWR | O_CREAT | O_EXCL, 0600);
    return handle < 0 ? handle : disk_posix.close(disk_posix.context, handle);
}

static int each_name(void *argument, const char *name) {
    struct target *target = argument;
    store_damaged(&target->asof->store, "%s contains \"%.100s\"; --into needs a new or empty directory",
                  target->directory, name);
    return 1;
}

/* Returns whether `directory`, or its nearest existing parent, lies in `source`. */
static bool lies_in(const char *directory, const char *source) {
    char at[STORE_PATH_SIZE], *whole = realpath(source, NULL), *real = NULL;
    snprintf(at, sizeof at, "%s", directory);
    while ((real = realpath(at, NULL)) == NULL) {
        char *slash = strrchr(at, '/');
        if (slash == NULL) snprintf(at, sizeof at, ".");
        if (slash != NULL) slash[slash == at] = 0;
        if (slash == at) break;
    }
    size_t size = whole != NULL ? strlen(whole) : 0;
    bool is_in = size > 0 && real != NULL && strncmp(real, whole, size) == 0 && (real[size] == '/' || real[size] == 0);
    free(real);
    free(whole);
    return is_in;
}

/* Creates NEWDIR, or checks that it is empty, and marks it as unfinished. */
static int begin(struct target *target) {
    const struct disk *disk = &disk_posix;
    char parent[STORE_PATH_SIZE + NAME_ROOM];
    snprintf(parent, sizeof parent, "%s/..", target->directory);
    if (lies_in(target->directory, target->asof->store.directory))
        return store_damaged(
            &target->asof->store,
            "--into %s: the directory is inside the data directory that the command reads; give another one",
            target->directory);
    int error = disk->make_directory(disk->context, target->directory, 0700);
    if (error == 0) error = disk->sync_directory(disk->context, parent);
    if (error != 0 && error != -EEXIST) return failed(target, "created", error);
    error = disk->list(disk->context, target->directory, each_name, target);
    if (error > 0) return EXIT_REFUSED;
    /* If two processes do this at once, one of them fails here. */
    if (error == 0) error = make_file(target->directory, BACKUP_PARTIAL_NAME);
    if (error == 0) error = disk->sync_directory(disk->context, target->directory);
    return error != 0 ? failed(target, "begun", error) : 0;
}

static int give_identity(struct target *target) {
    struct store *store = &target->asof->store;
    struct identity own, identity;
    struct member parent = {0}, member;
    char message[IDENTITY_MESSAGE_SIZE];
    int error = identity_read(store->directory, &own, message);
    if (error == 0) error = member_read(store->directory, &parent, message);
    if (error == -ENOENT) error = 0; /* an earlier version of tarry wrote no such file */
    if (error > 0) return store_damaged(store, "%s", message);
    if (error < 0) return failed(target, "given an identity", error);
    if (!identity_copy(&own, &parent, store->recovery.epoch, &identity, &member))
        return store_damaged(store, "%s has been copied so often that no epoch number is left", store->directory);
    error = member_write(target->directory, &member);
    if (error == 0) error = identity_write(target->directory, &identity);
    return error != 0 ? failed(target, "given an identity", error) : 0;
}

static int end(struct target *target) {
    const struct disk *disk = &disk_posix;
    char mark[STORE_PATH_SIZE + NAME_ROOM];
    snprintf(mark, sizeof mark, "%s/%s", target->directory, BACKUP_PARTIAL_NAME);
    int error = make_file(target->directory, "lock"); /* for readers */
    if (error == 0) error = disk->sync_directory(disk->context, target->log);
    if (error == 0) error = disk->sync_directory(disk->context, target->index);
    if (error == 0) error = disk->sync_directory(disk->context, target->directory);
    if (error == 0) error = disk->unlink(disk->context, mark);
    if (error == 0) error = disk->sync_directory(disk->context, target->directory);
    return error != 0 ? failed(target, "finished", error) : 0;
}

static int complete(struct target *target) {
    struct asof *asof = target->asof;
    char message[1024] = "";
    struct log_options options = {
        .directory = target->log,
        .disk = &disk_posix,
        .segment_size = SEGMENT_SIZE_DEFAULT,
    };
    memcpy(options.cluster, asof->source.cluster, sizeof options.cluster);
    int error = as_of_complete(&asof->moment, &asof->source, &options, message, sizeof message);
    if (error == 0) return 0;
    return message[0] != 0 && error != AS_OF_ERASED ? store_damaged(&asof->store, "%s: %s", target->directory, message)
                                                    : asof_failed(asof, error);
}

static void print(const struct asof *asof, const char *directory, struct text *out) {
    const struct as_of *moment = &asof->moment;
    char digest[24];
    snprintf(digest, sizeof digest, "%016" PRIx64, moment->meta.tally.digest);
    if (!asof->tool->json) {
        text_printf(out, "%s: as of ", directory);
        asof_words(asof, out);
        text_printf(out,
                    ", %" PRIu64 " live tasks, digest %s\n"
                    "inspect it with: tarryd --inspect --data %s\n",
                    moment->meta.tally.live, digest, directory);
        return;
    }
    out_begin(out, '{');
    out_text(out, "directory", directory);
    out_number(out, "as_of_ms", moment->steady_ns / 1000000);
    out_number(out, "wall_ms", moment->wall_ns / 1000000);
    out_number(out, "position", moment->meta.position);
    out_number(out, "live", moment->meta.tally.live);
    out_text(out, "digest", digest);
    out_line_end(out);
}

int asof_into(struct asof *asof, const char *directory, struct text *out) {
    struct target target = {.asof = asof, .directory = directory};
    if (directory[0] == 0 || strlen(directory) + NAME_ROOM > STORE_PATH_SIZE)
        return store_damaged(&asof->store, "--into: the directory name is empty or too long");
    snprintf(target.log, sizeof target.log, "%s/log", directory);
    snprintf(target.index, sizeof target.index, "%s/index", directory);
    int status = begin(&target);
    if (status == 0) status = asof_find(asof, target.index, true);
    if (status == 0) status = complete(&target);
    if (status == 0) {
        index_close(asof->moment.index); /* syncs the last writes before the mark is removed */
        asof->moment.index = NULL;
        status = give_identity(&target);
    }
    if (status == 0) status = end(&target);
    if (status == 0) print(asof, directory, out);
    return status;
}
