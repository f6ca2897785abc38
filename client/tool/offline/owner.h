/* owner.h: owner of the files that an offline command makes. A file of root in the directory of the broker's user
 * would stop the broker. So files made by root get the owner of the directory that they are in. Other users cannot
 * give files away; for them nothing happens. */
#ifndef TARRY_TOOL_OFFLINE_OWNER_H
#define TARRY_TOOL_OFFLINE_OWNER_H

#include <sys/types.h>

struct owner {
    uid_t uid;
    gid_t gid;
};

/* Returns the owner of `directory`; if it does not exist, of its nearest existing parent. If that fails, the current
 * user. */
struct owner owner_of(const char *directory);
/* Gives the file, directory or symbolic link to `owner`, if root runs this process. 0 or a negative errno; also 0 if
 * the file system has no owners, or root may not do it. */
int owner_give(struct owner owner, const char *path);

#endif
