/* owner.h: whose the files are that an offline command makes. Root's commands work in directories of the broker's user,
 * and a file of root's there would stop the broker. So what root makes belongs to the owner of the directory that it is
 * made in. For other users nothing happens: they cannot give files away. */
#ifndef TARRY_TOOL_OFFLINE_OWNER_H
#define TARRY_TOOL_OFFLINE_OWNER_H

#include <sys/types.h>

struct owner {
    uid_t uid;
    gid_t gid;
};

/* Whose `directory` is; of one that is not there, whose the nearest directory above it is. Oneself if that cannot be
 * found out. */
struct owner owner_of(const char *directory);
/* Gives the file, directory or symbolic link to `owner`, if this process is root's. 0 or a negative errno; 0 too where
 * the file system has no owners, or root may not do so here. */
int owner_give(struct owner owner, const char *path);

#endif
