/* datadir_neighbours.c: see datadir.h. */
#include "datadir.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "disk.h"
#include "identity.h"
#include "logfmt.h"

#define PATH_SIZE 2048

struct search {
    const char *parent;
    const char *own; /* name of the new directory in `parent` */
    char found[PATH_SIZE];
    unsigned looked_at;
    unsigned others; /* number of further data directories beside it */
};

bool neighbours_is_data(const char *path) {
    struct identity identity;
    char message[IDENTITY_MESSAGE_SIZE];
    return !directory_is_partial(path) && identity_read(path, &identity, message) == 0;
}

/* Returns the length of `path` without its last name and the slashes around it. */
static size_t parent_length(const char *path) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    while (length > 0 && path[length - 1] != '/') length--;
    while (length > 1 && path[length - 1] == '/') length--;
    return length;
}

void neighbours_parent(const char *path, char *out, size_t size) {
    size_t length = parent_length(path);
    snprintf(out, size, "%.*s", length == 0 ? 1 : (int)length, length == 0 ? "." : path);
}

static int each_name(void *argument, const char *name) {
    struct search *search = argument;
    char path[PATH_SIZE];
    if (name[0] == '.' || strcmp(name, search->own) == 0) return 0;
    if (search->looked_at++ == NEIGHBOURS_MAX) return 1;
    int size = snprintf(path, sizeof(path), "%s/%s", search->parent, name);
    if (size < 0 || (size_t)size >= sizeof(path) || !neighbours_is_data(path)) return 0;
    if (search->found[0] != '\0')
        search->others++;
    else
        memcpy(search->found, path, sizeof(path));
    return 0;
}

/* Writes the last name of `path`, without trailing slashes. */
static void own_name(const char *path, char *out, size_t size) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    size_t from = length;
    while (from > 0 && path[from - 1] != '/') from--;
    snprintf(out, size, "%.*s", (int)(length - from), path + from);
}

void neighbours_tell(const char *path) {
    char parent[PATH_SIZE], own[PATH_SIZE], sentence[3 * PATH_SIZE], quoted[LOGFMT_VALUE_SIZE], dir[LOGFMT_VALUE_SIZE];
    struct search search = {.parent = parent, .own = own};
    struct stat status;
    neighbours_parent(path, parent, sizeof(parent));
    own_name(path, own, sizeof(own));
    if (stat(parent, &status) != 0 || (status.st_mode & S_IWOTH) != 0) return;
    if (disk_posix.list(disk_posix.context, parent, each_name, &search) < 0 || search.found[0] == '\0') return;
    snprintf(sentence, sizeof(sentence),
             "this broker starts with no tasks, but other data directories are near: if it should have the data in "
             "%.150s, stop it, and start it with that directory as --data, or move the data to %.150s",
             search.found, path);
    logfmt("founded_beside", "data=%s others=%u warning=%s", logfmt_quote(search.found, dir), search.others,
           logfmt_quote(sentence, quoted));
}
